import { RegistryError } from '../images/registry-port.js';

/** Code of errors that say that an address is not allowed. */
const REFUSED = 'HARBINGER_ADDRESS';

/** What happened to one exchange, for messages. */
export interface Circumstances {
  /** Host of the reference. */
  host: string;
  /** Host that was asked. */
  via: string;
  /** Bytes of the body that arrived. */
  received: number;
  timedOut: boolean;
  /** The caller ended the exchange. */
  gaveUp: boolean;
  timeoutMs: number;
  /** Status of the answer that named this host, where it is not the registry itself. */
  namedBy?: number;
}

/** No connection to a registry came about, whatever it was to be asked. */
export class UnreachableError extends RegistryError {}

/** The failure of an exchange in words that name the host, the cause and the way out. */
export function explain(error: unknown, at: Circumstances): RegistryError {
  if (error instanceof RegistryError) return error;
  const { host, via, received } = at;
  const who = via === host ? `registry ${host}` : `registry ${host} (at ${via})`;
  if (at.gaveUp)
    return new RegistryError(`${who} did not answer before the caller gave up`, { outcome: 'budget-exceeded', host });
  const seconds = Math.round(at.timeoutMs / 100) / 10;
  if (at.timedOut)
    return new RegistryError(`${who} did not answer within ${seconds} s; see whether it is overloaded`, {
      outcome: 'registry-error',
      host,
    });
  const cause = rootCause(error);
  // An address that is refused says nothing about the registry, or one image with a bad redirect would cut off all others.
  const status = cause.code === REFUSED && at.namedBy !== undefined ? { status: at.namedBy } : {};
  const Kind = at.namedBy === undefined && UNREACHABLE.test(cause.code ?? '') ? UnreachableError : RegistryError;
  return new Kind(`${who} ${inWords(cause, received)}`, { outcome: 'registry-error', host, ...status });
}

/** A body that is longer than anything that is needed; the rest of it was not read. */
export function tooLarge(host: string, maxBytes: number, status: number): RegistryError {
  const limit = Math.round(maxBytes / 1024);
  return new RegistryError(
    `registry ${host} sent more than ${limit} KiB, which no manifest or token needs; the answer was dropped`,
    { outcome: 'registry-error', host, status },
  );
}

/** undici and the family-racing connect wrap what really happened. */
function rootCause(error: unknown): NodeJS.ErrnoException {
  let cause = error as NodeJS.ErrnoException;
  for (let depth = 0; depth < 4; depth += 1) {
    const inner = cause instanceof AggregateError ? (cause.errors[0] as unknown) : cause.cause;
    if (!(inner instanceof Error)) break;
    cause = inner;
  }
  return cause;
}

const [UNKNOWN_NAME, NO_CONNECTION, UNTRUSTED, NO_TLS] = [
  /^ENOTFOUND$|^EAI_/,
  /^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT)$/,
  /^(UNABLE_TO|SELF_SIGNED|DEPTH_ZERO|CERT_|ERR_TLS_CERT)/,
  /^(EPROTO|ERR_SSL)/,
];
const UNREACHABLE = new RegExp(
  [UNKNOWN_NAME, NO_CONNECTION, UNTRUSTED, NO_TLS, new RegExp(`^${REFUSED}$`)].map(({ source }) => source).join('|'),
);

/** What to say of an error code; the first that matches. */
const WORDS: readonly (readonly [RegExp, (code: string) => string])[] = [
  [UNKNOWN_NAME, () => 'cannot be found: its name has no address; check the name and the cluster DNS'],
  [
    NO_CONNECTION,
    (code) => `cannot be reached (${code}); see whether it is up and whether network policies let Harbinger reach it`,
  ],
  [UNTRUSTED, (code) => `has a certificate that is not trusted (${code}); set caFile for it under registries`],
  [NO_TLS, () => 'does not speak TLS; set plainHTTP: true for it under registries if that is right'],
  [/^HPE_/, (code) => `does not speak HTTP (${code}); check host and port`],
];
/** The connection ended early; how it is reported depends on where undici was. */
const CUT = /^(UND_ERR_SOCKET|ECONNRESET|UND_ERR_RES|UND_ERR_ABORTED|HPE_INVALID_EOF_STATE)/;

function inWords({ code: own, name, message }: NodeJS.ErrnoException, received: number): string {
  // undici leaves the code of its parser's errors out where the parser gave none.
  const code = own ?? (name === 'HTTPParserError' ? 'HPE_UNKNOWN' : '');
  if (code === REFUSED) return `is not asked: ${message}`;
  if (CUT.test(code))
    return received > 0
      ? `cut its answer short after ${received} bytes; see what stands in front of it`
      : 'closed the connection without an answer';
  const words = WORDS.find(([pattern]) => pattern.test(code));
  return words === undefined ? `failed: ${message}${code === '' ? '' : ` (${code})`}` : words[1](code);
}

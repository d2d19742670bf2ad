import { describe, expect, test } from '@jest/globals';
import { format, parseReference } from '../../../src/images/reference.js';
import { decide, questionsOf } from '../../../src/rewrite/decide.js';
import { DIGEST, OTHER, makePod, makePolicy, makeSituation } from '../rewrite/builders.js';

const HEX_512 = 'c'.repeat(128);

describe('names of images', () => {
  test('H-03 six spellings of one Docker Hub image are one question and one decision, another host is another image', () => {
    const spellings = [
      'nginx',
      'nginx:latest',
      'library/nginx',
      'docker.io/nginx',
      'docker.io/library/nginx',
      'index.docker.io/library/nginx',
    ];
    const other = 'registry-1.docker.io/library/nginx';
    const images = Object.fromEntries([...spellings, other].map((image, i) => [`c${i}`, image]));
    const policies = [makePolicy('p', { match: { images: ['docker.io/library/*'] } })];
    const situation = makeSituation(makePod(images), { policies });
    const [question, ...more] = questionsOf(situation);
    expect([question && format(question.reference), more]).toEqual(['docker.io/library/nginx:latest', []]);
    const variant = `docker.io/library/nginx@${OTHER}`;
    const answers = new Map([[question?.key ?? '', { outcome: 'accelerated', image: variant, format: 'estargz' } as const]]);
    const decisions = decide(situation, answers).map((v) => v.decision);
    expect(decisions.slice(0, 6)).toEqual(
      spellings.map((source) => expect.objectContaining({ source, outcome: 'accelerated', image: variant })),
    );
    expect(decisions[6]).toMatchObject({ source: other, outcome: 'no-policy', image: other });
  });

  /** Host, path, tag and digest by the grammar of distribution/reference; undefined where there is no reference. */
  const GRAMMAR: readonly [string, [string, string, (string | undefined)?, string?] | undefined][] = [
    ['localhost:5000/a', ['localhost:5000', 'a', 'latest']],
    ['localhost:5000/a:1', ['localhost:5000', 'a', '1']],
    [`reg.example:5000/a/b:1@${DIGEST}`, ['reg.example:5000', 'a/b', '1', DIGEST]],
    [`a@${DIGEST}`, ['docker.io', 'library/a', undefined, DIGEST]],
    ['localhost/a', ['localhost', 'a', 'latest']],
    ['a.b/c', ['a.b', 'c', 'latest']],
    ['a_b/c', ['docker.io', 'a_b/c', 'latest']],
    // Capitals cannot be in a path, so the first part is a host.
    ['FOO/bar', ['FOO', 'bar', 'latest']],
    ['docker.io/FOO/bar', undefined],
    ['<image>', undefined],
    ['', undefined],
    ['a'.repeat(300), undefined],
    [`a@sha512:${HEX_512}`, ['docker.io', 'library/a', undefined, `sha512:${HEX_512}`]],
    [`a@sha512:${HEX_512.slice(1)}`, undefined],
  ];

  test('H-04 ports, tags and digests are read by the grammar, and what is no reference is left with a reason', () => {
    for (const [text, want] of GRAMMAR) {
      const parsed = parseReference(text);
      const parts = parsed.ok ? parsed.reference : undefined;
      expect({ text, parts }).toEqual({
        text,
        parts: want && {
          registry: want[0],
          repository: want[1],
          ...(want[2] === undefined ? {} : { tag: want[2] }),
          ...(want[3] === undefined ? {} : { digest: want[3] }),
        },
      });
      // An empty image is refused by the API server: there is no decision to write.
      if (text === '') continue;
      const [verdict] = decide(makeSituation(makePod({ app: text }), { policies: [makePolicy('p')] }), new Map());
      expect(verdict?.decision).toMatchObject({
        source: text,
        image: text,
        outcome: want === undefined ? 'unparsable' : 'budget-exceeded',
        message: expect.stringMatching(/./),
      });
    }
  });
});

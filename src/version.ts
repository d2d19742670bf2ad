/** Version of this build; tools/bundle.ts puts the one of package.json in. */
export const VERSION = process.env['HARBINGER_VERSION'] ?? '0.0.0-dev';

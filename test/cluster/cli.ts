import { ensureTools } from './tools.js';
await ensureTools();

// Plain JavaScript, so that Node's cache of compiled code is on before the first TypeScript file is read.
import { enableCompileCache } from 'node:module';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';

const { XDG_CACHE_HOME: given } = process.env;
// Not the shared temporary folder, Node's own choice: code of other users would be run from there.
const caches = given && isAbsolute(given) ? given : join(homedir(), '.cache');
enableCompileCache(join(caches, 'service', 'compiled'));
await import('./main.ts');

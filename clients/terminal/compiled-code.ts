/** Where Node keeps the compiled code of this command, so that a start is quick. */
import { getCompileCacheDir } from 'node:module';
import { isAbsolute, join } from 'node:path';
import { homeFolder } from './home-folder.ts';

/**
 * The folder that `start.mjs` chooses: that file is plain JavaScript, runs before this one, and must say the same. Null
 * where it chooses none, since no home is known.
 */
export function compiledCodeFolder(): string | null {
  const { XDG_CACHE_HOME: given } = process.env;
  const caches = given && isAbsolute(given) ? given : join(homeFolder(), '.cache');
  return isAbsolute(caches) ? join(caches, 'service', 'compiled') : null;
}

/** Whether this process uses it. */
export function isCodeCached(): boolean {
  return getCompileCacheDir() !== undefined;
}

/** Where Node keeps the compiled code of this command, so that a start is quick. */
import { getCompileCacheDir } from 'node:module';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';

/** The folder that `start.mjs` chooses: that file is plain JavaScript, runs before this one, and must say the same. */
export function compiledCodeFolder(): string {
  const { XDG_CACHE_HOME: given } = process.env;
  return join(given && isAbsolute(given) ? given : join(homedir(), '.cache'), 'service', 'compiled');
}

/** Whether this process uses it. */
export function isCodeCached(): boolean {
  return getCompileCacheDir() !== undefined;
}

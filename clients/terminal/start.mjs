// Plain JavaScript, so that Node's cache of compiled code is on before the first TypeScript file is read.
import { lstatSync, mkdirSync, statSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';
import { programOf } from '../../server/compiled-program.mjs';

const { XDG_CACHE_HOME: given, SERVICE_CALLED_AS: name, SERVICE_HANGUPS: hangups } = process.env;
// As programs have it: the first argument is the name that this one was called by. It is no setting, and no child's affair.
if (name) process.argv[1] = name;
delete process.env.SERVICE_CALLED_AS;
if (hangups === 'ignored') process.on('SIGHUP', () => undefined);
delete process.env.SERVICE_HANGUPS;

// Not the shared temporary folder, Node's own choice: code of other users would be run from there.
try {
  const caches = given && isAbsolute(given) ? given : join(homedir(), '.cache');
  // Without a home it would be a folder of the project, and code that lies there would be run.
  if (isAbsolute(caches)) keepCodeBelow(caches);
} catch {
  // Without a cache the command is slower, and nothing else.
}
await import(programOf('service', import.meta.resolve('./main.ts')));

function keepCodeBelow(caches) {
  const compiled = join(caches, 'service', 'compiled');
  mkdirSync(compiled, { recursive: true, mode: 0o700 });
  if ([statSync(caches), lstatSync(dirname(compiled)), lstatSync(compiled)].every(isOurs))
    enableCompileCache(compiled);
}

/** Nobody else may put code there, for us to run. A root that has another user's HOME uses none of it, either. */
function isOurs(facts) {
  return facts.isDirectory() && facts.uid === process.getuid?.() && (facts.mode & 0o022) === 0;
}

/** Runs a command beside an empty PostgreSQL that it has for itself: `node with-postgres.ts VARIABLE COMMAND [ARGUMENT…]`. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { startPostgres } from './test-postgres.ts';

const [variable = '', command = '', ...args] = process.argv.slice(2);
const postgres = await startPostgres();
if (postgres === null) throw new Error('There is no PostgreSQL in .venv: make python installs it.');
try {
  // The command finds the address in the variable. An interrupt from the keyboard reaches it, too, and ends it first.
  const child = spawn(command, args, { stdio: 'inherit', env: { ...process.env, [variable]: postgres.url } });
  process.on('SIGINT', () => undefined);
  await once(child, 'exit');
  process.exitCode = child.exitCode ?? 1;
} finally {
  await postgres.stop();
}

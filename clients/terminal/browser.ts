/** Opens pages for the person, where there is one at a terminal. */
import { spawn } from 'node:child_process';
import { CommandFailure, exitCodes } from './failures.ts';

/**
 * Tries to; whoever has no browser here reads the address, which is printed besides. Throws for what is no page: a
 * server names it, and the system would open files and start programs by such addresses.
 */
export function openBrowser(url: string): void {
  const protocol = URL.parse(url)?.protocol;
  if (protocol !== 'https:' && protocol !== 'http:')
    throw new CommandFailure('The page that the server names is none.', exitCodes.unreachable);
  if (!process.stderr.isTTY) return;
  const [command, ...args] = process.platform === 'darwin' ? ['open', url] : ['xdg-open', url];
  const child = spawn(command ?? 'xdg-open', args, { stdio: 'ignore', detached: true });
  child.on('error', () => undefined);
  child.unref();
}

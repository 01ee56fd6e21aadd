/** Opens pages for the person, where there is one at a terminal. */
import { spawn } from 'node:child_process';

/** Tries to; whoever has no browser here reads the address, which is printed besides. */
export function openBrowser(url: string): void {
  if (!process.stderr.isTTY) return;
  const [command, ...args] = process.platform === 'darwin' ? ['open', url] : ['xdg-open', url];
  const child = spawn(command ?? 'xdg-open', args, { stdio: 'ignore', detached: true });
  child.on('error', () => undefined);
  child.unref();
}

/** A terminal with a person at it, for tests: tmux runs the command, types what the test says, and shows what stands there. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { onTestFinished } from 'vitest';

const run = promisify(execFile);

/** A terminal in which one program runs. */
export interface TestTerminal {
  /** Presses keys, as tmux names them: letters, `Enter`, `C-c`, `C-d`. */
  press(...keys: readonly string[]): Promise<void>;
  /** What stands on the screen once the text does. Fails with the screen after some seconds. */
  shows(text: string | RegExp): Promise<string>;
  /** What stands on the screen once the program has ended, and its exit code. */
  end(): Promise<{ readonly screen: string; readonly code: number }>;
}

/** Starts a program in a terminal of 100 columns, with these variables and no others. It is gone after the test. */
export async function openTestTerminal(
  words: readonly string[],
  { cwd, environment }: { readonly cwd: string; readonly environment: Readonly<Record<string, string>> },
): Promise<TestTerminal> {
  const folder = mkdtempSync(join(tmpdir(), 'service-terminal-'));
  const tmux = (...args: readonly string[]) =>
    run('tmux', ['-S', join(folder, 'socket'), '-f', '/dev/null', ...args]);
  onTestFinished(async () => {
    await tmux('kill-server');
    rmSync(folder, { recursive: true, force: true });
  });
  const variables = Object.entries({ ...environment, TERM: 'tmux-256color' }).map(
    ([name, value]) => `${name}=${value}`,
  );
  // The waiting keeps the program from ending before tmux is told to keep what it wrote.
  const line = `read -r _; exec env -i ${[...variables, ...words].map(quoted).join(' ')}`;
  await tmux('new-session', '-d', '-x', '100', '-y', '50', '-c', cwd, 'sh', '-c', line);
  await tmux('set-option', '-g', 'remain-on-exit', 'on');
  await tmux('set-option', '-g', 'remain-on-exit-format', '');
  await tmux('send-keys', 'Enter');
  const screen = async () => (await tmux('capture-pane', '-p', '-J', '-S', '-')).stdout.trimEnd();
  const until = async <Found>(look: () => Promise<Found | null>): Promise<Found> => {
    for (const deadline = Date.now() + 15_000; Date.now() < deadline; await sleep(20)) {
      const found = await look();
      if (found !== null) return found;
    }
    throw new Error(`It did not come to that. On the screen:\n${await screen()}`);
  };
  return {
    press: async (...keys) => void (await tmux('send-keys', ...keys)),
    shows: (text) =>
      until(async () => {
        const now = await screen();
        return (typeof text === 'string' ? now.includes(text) : text.test(now)) ? now : null;
      }),
    end: () =>
      until(async () => {
        const { stdout } = await tmux(
          'display-message',
          '-p',
          '#{pane_dead} #{pane_dead_status} #{pane_dead_signal}',
        );
        const [dead, status, signal] = stdout.trimEnd().split(' ');
        return dead === '1'
          ? { screen: await screen(), code: status ? Number(status) : 128 + Number(signal) }
          : null;
      }),
  };
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

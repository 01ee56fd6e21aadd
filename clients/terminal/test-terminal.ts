/** A terminal with a person at it, for tests: tmux runs the command, types what the test says, and shows what stands there. */
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { onTestFinished, TestRunner } from 'vitest';
import { findProgram } from './search-path.ts';

const run = promisify(execFile);

/** A terminal in which one program runs. */
export interface TestTerminal {
  /** Presses keys, as tmux names them: letters, `Enter`, `C-c`, `C-d`. */
  press(...keys: readonly string[]): Promise<void>;
  /** Pastes; `marked` where the program has asked the terminal to say where a paste begins and ends. */
  paste(text: string, how?: { readonly marked?: boolean }): Promise<void>;
  /** What stands on the screen once the text does. Fails with the screen after some seconds. */
  shows(text: string | RegExp): Promise<string>;
  /** What has not scrolled off the screen. */
  visible(): Promise<string>;
  /** Whether anything on the screen is coloured or set off in any other way. */
  colours(): Promise<boolean>;
  /** Closes the window: the program has no terminal any more. */
  hangUp(): Promise<void>;
  /** Ends the program as a power failure would, or with another signal than SIGKILL. */
  kill(signal?: 'KILL' | 'TERM'): Promise<void>;
  /** What stands on the screen once the program has ended, and its exit code. */
  end(): Promise<{ readonly screen: string; readonly code: number }>;
}

/**
 * Starts a program in a terminal of 100 columns and so many rows, with these variables and no others. It is gone after
 * the test. Without tmux the test is skipped, and says so.
 */
export async function openTestTerminal(
  words: readonly string[],
  {
    cwd,
    environment,
    rows = 50,
  }: {
    readonly cwd: string;
    readonly environment: Readonly<Record<string, string>>;
    readonly rows?: number;
  },
): Promise<TestTerminal> {
  if (!findProgram('tmux', process.env.PATH, '/'))
    TestRunner.getCurrentTest()?.context.skip('tmux is not installed');
  const folder = mkdtempSync(join(tmpdir(), 'service-terminal-'));
  const tmux = (...args: readonly string[]) =>
    run('tmux', ['-S', join(folder, 'socket'), '-f', '/dev/null', ...args]);
  onTestFinished(async () => {
    // It has ended by itself where the window was closed.
    await tmux('kill-server').catch(() => undefined);
    rmSync(folder, { recursive: true, force: true });
  });
  const variables = Object.entries({ ...environment, TERM: 'tmux-256color' }).map(
    ([name, value]) => `${name}=${value}`,
  );
  const program = [...variables, ...words].map(quoted).join(' ');
  const codeFile = join(folder, 'code');
  // The shell outlives the program, so that what it wrote stays on the screen; Ctrl+C is for the program alone.
  const line = `trap : INT; env -i ${program}; echo $? >${quoted(codeFile)}; read -r _`;
  await tmux('new-session', '-d', '-x', '100', '-y', String(rows), '-c', cwd, 'sh', '-c', line);
  const screen = async () => (await tmux('capture-pane', '-p', '-J', '-S', '-')).stdout.trimEnd();
  const until = async <Found>(look: () => Promise<Found | null>): Promise<Found> => {
    for (const deadline = Date.now() + 60_000; Date.now() < deadline; await sleep(20)) {
      const found = await look();
      if (found !== null) return found;
    }
    throw new Error(`It did not come to that. On the screen:\n${await screen()}`);
  };
  return {
    press: async (...keys) => void (await tmux('send-keys', ...keys)),
    async paste(text, { marked = true } = {}) {
      await tmux('set-buffer', '--', text);
      await tmux('paste-buffer', ...(marked ? ['-p'] : []));
    },
    shows: (text) =>
      until(async () => {
        const now = await screen();
        return (typeof text === 'string' ? now.includes(text) : text.test(now)) ? now : null;
      }),
    visible: async () => (await tmux('capture-pane', '-p')).stdout,
    colours: async () => (await tmux('capture-pane', '-p', '-e')).stdout.includes('\x1b['),
    hangUp: async () => void (await tmux('kill-session')),
    async kill(signal = 'KILL') {
      // The launcher becomes the program, so that the program is the only child of the shell.
      const shell = (await tmux('display-message', '-p', '#{pane_pid}')).stdout.trim();
      await run('pkill', [`-${signal}`, '-P', shell]);
    },
    end: () =>
      until(async () => {
        const code = existsSync(codeFile) ? readFileSync(codeFile, 'utf8') : '';
        return code.endsWith('\n') ? { screen: await screen(), code: Number(code) } : null;
      }),
  };
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Secrets that a person gives a command. */
import { text as readAll } from 'node:stream/consumers';
import { askLine } from './ask.ts';
import { CommandFailure, exitCodes } from './failures.ts';
import { isTerminal } from './output.ts';

/**
 * One secret after the other: from the terminal, unseen; else from the lines of standard input. Never from the command
 * line, which others can read.
 */
export function secretsOf(): (question: string, what: string) => Promise<string> {
  let lines: string[] | undefined;
  return async (question, what) => {
    if (!isTyped()) lines ??= (await readAll(process.stdin)).split(/\r?\n/);
    const line = lines ? lines.shift() : await askLine(question, { hidden: true });
    if (line) return line;
    throw new CommandFailure(`There is no ${what} on standard input.`, exitCodes.usage);
  };
}

/** Whether a person types what is read. */
export function isTyped(): boolean {
  return isTerminal(process.stderr) && process.stdin.isTTY;
}

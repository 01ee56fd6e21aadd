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
    if (process.stdin.isTTY && !isTyped())
      // What is typed would stand on the screen, and nobody would see that it is asked for.
      throw new CommandFailure(
        `There is no way to ask for the ${what}: standard error is no terminal. Leave it there, or send the ${what} through standard input.`,
        exitCodes.usage,
      );
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

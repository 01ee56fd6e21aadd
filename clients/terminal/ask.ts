/** Questions to the person at the terminal. They are asked on standard error, so that an answer can go into a pipe. */
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { CommandFailure, exitCodes } from './failures.ts';
import { paint } from './output.ts';

/** One answer that a person may choose. */
export interface Choice<Key extends string> {
  /** What the person types: its first letter, or the whole word. First letters differ. */
  readonly key: Key;
  readonly meaning: string;
}

/** Whether there is anybody to ask. */
export function canAsk(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true;
}

/** Asks until it is yes or no; an empty answer, and the end of the input, is no. */
export async function askYesNo(question: string): Promise<boolean> {
  const choices = [
    { key: 'yes', meaning: 'yes' },
    { key: 'no', meaning: 'no' },
  ] as const;
  return (await askChoice(question, choices, 'no')) === 'yes';
}

/** Asks until one of the choices is given; an empty answer, and the end of the input, is the fallback. */
export async function askChoice<Key extends string>(
  question: string,
  choices: readonly Choice<Key>[],
  fallback: NoInfer<Key>,
): Promise<Key> {
  const letters = choices.map(({ key }) => (key === fallback ? key[0]?.toUpperCase() : key[0])).join('/');
  for (;;) {
    const line = await askLine(`${paint('bold', question, process.stderr)} [${letters}] `);
    const answer = line?.trim().toLowerCase() ?? '';
    if (answer === '') return fallback;
    const chosen = choices.find(({ key }) => key === answer || key[0] === answer);
    if (chosen) return chosen.key;
    for (const { key, meaning } of choices) process.stderr.write(`  ${key[0]}  ${meaning}\n`);
  }
}

/** Asks for one line; null at the end of the input. Ctrl+C ends the command. */
export function askLine(question: string): Promise<string | null> {
  return readLine(question, process.stderr);
}

/** Asks for a line that is not shown while it is typed. */
export async function askSecret(question: string): Promise<string | null> {
  process.stderr.write(question);
  const nowhere = new Writable({ write: (_chunk, _encoding, written) => written() });
  const line = await readLine('', nowhere).finally(() => process.stderr.write('\n'));
  return line;
}

function readLine(question: string, output: NodeJS.WritableStream): Promise<string | null> {
  const reader = createInterface({ input: process.stdin, output, terminal: true, historySize: 0 });
  return new Promise<string | null>((resolve, reject) => {
    reader.once('SIGINT', () => {
      if (output === process.stderr) output.write('\n');
      reject(new CommandFailure('Stopped.', exitCodes.interrupted));
    });
    reader.once('close', () => resolve(null));
    reader.question(question, resolve);
  }).finally(() => reader.close());
}

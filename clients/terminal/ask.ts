/** Questions to the person at the terminal. They are asked on standard error, so that an answer can go into a pipe. */
import { closeAtEnd } from './interrupts.ts';
import { paint } from './output.ts';
import { openKeyboard } from './terminal-input.ts';

/** Enter, Ctrl+D and Escape: whatever is not chosen is not wanted. */
const leave = ['\r', '\n', '\x04', '\x1b'];

/** One answer that a person may choose. */
export interface Choice<Key extends string> {
  /** Its first letter is the key to press. */
  readonly answer: Key;
  readonly meaning: string;
}

/** Whether there is anybody to ask. */
export function canAsk(): boolean {
  const keyboard = openKeyboard();
  keyboard?.close();
  return keyboard !== null;
}

/** Asks yes or no; Enter is no. Null where there is nobody to ask. */
export async function askYesNo(question: string): Promise<boolean | null> {
  const choices = [
    { answer: 'yes', meaning: 'yes' },
    { answer: 'no', meaning: 'no' },
  ] as const;
  const chosen = await askChoice(question, choices, 'no');
  return chosen && chosen === 'yes';
}

/** Asks which it shall be, for one key; Enter is the fallback. Null where there is nobody to ask. */
export async function askChoice<Key extends string>(
  question: string,
  choices: readonly Choice<Key>[],
  fallback: NoInfer<Key>,
): Promise<Key | null> {
  const keyboard = openKeyboard();
  if (!keyboard) return null;
  const letterOf = (answer: string) => answer.slice(0, 1);
  const others = choices.flatMap(({ answer, meaning }) =>
    answer === meaning ? [] : [`${letterOf(answer)} = ${meaning}`],
  );
  const letters = choices.map(({ answer }) =>
    answer === fallback ? letterOf(answer).toUpperCase() : letterOf(answer),
  );
  const hint = paint('dim', others.length > 0 ? ` (${others.join(', ')})` : '', process.stderr);
  const ask = () =>
    process.stderr.write(`${paint('bold', question, process.stderr)} [${letters.join('/')}]${hint} `);
  try {
    const key = await keyboard.readKey(
      [...choices.map(({ answer }) => letterOf(answer)), ...leave],
      ask,
      new AbortController().signal,
    );
    const chosen = choices.find(({ answer }) => letterOf(answer) === key)?.answer ?? fallback;
    process.stderr.write(`${chosen}\n`);
    return chosen;
  } finally {
    keyboard.close();
  }
}

/** Asks for one line, which is not shown where it is `hidden`. Null at the end of the input, and where there is nobody to ask. */
export async function askLine(question: string, { hidden = false } = {}): Promise<string | null> {
  const keyboard = openKeyboard();
  if (!keyboard) return null;
  // A signal must not leave the terminal in the way that it is in while something is asked.
  return await closeAtEnd(
    () => keyboard.readLine(question, new AbortController().signal, { hidden }),
    async () => keyboard.close(),
  );
}

/** What is asked: the words of the command line, and what comes through standard input behind them. */
import { CommandFailure, exitCodes } from '../failures.ts';
import { notice } from '../output.ts';

/** As the contract has it. */
const longestPrompt = 8 * 1024 * 1024;
/** A pipe that nobody closes would keep the command waiting without a word. */
const patienceMs = 3000;

/** Throws where nothing is asked. */
export async function readPrompt(words: readonly string[]): Promise<string> {
  const asked = words.join(' ').trim();
  const piped = process.stdin.isTTY ? '' : await readPiped(asked !== '');
  const prompt = [asked, withoutMargins(piped)].filter(Boolean).join('\n\n');
  if (prompt === '')
    throw usage('Nothing is asked. Write it behind the command, as service run "What does this project do?"');
  if (prompt.includes('\0')) throw usage('What is asked holds a NUL character: is it a binary file?');
  if (prompt.length > longestPrompt) throw tooLong();
  return prompt;
}

/** Lines of a file mean something by how far they are indented, the first one too. */
function withoutMargins(text: string): string {
  return text.replace(/^\ufeff?(?:[^\S\n]*\n)*/, '').trimEnd();
}

async function readPiped(isExtra: boolean): Promise<string> {
  const late = setTimeout(
    () =>
      notice('Reading standard input to its end. Where it has none, write </dev/null behind the command.'),
    patienceMs,
  );
  if (!isExtra || process.stdin.readableEnded) clearTimeout(late);
  try {
    return await collect(process.stdin);
  } finally {
    clearTimeout(late);
  }
}

async function collect(stream: NodeJS.ReadStream): Promise<string> {
  const pieces: string[] = [];
  let length = 0;
  for await (const piece of stream.setEncoding('utf8')) {
    pieces.push(String(piece));
    length += String(piece).length;
    if (length > longestPrompt) throw tooLong();
  }
  return pieces.join('');
}

function tooLong(): CommandFailure {
  return usage(
    `What is asked is longer than ${longestPrompt} characters. Name a file in the folder instead: the agent can read it.`,
  );
}

function usage(message: string): CommandFailure {
  return new CommandFailure(message, exitCodes.usage);
}

/** `service init`: has the agent look at the project and write down what agents have to know of it. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { CommandFailure, exitCodes } from '../failures.ts';
import { type RunWishes, runPrompt } from './run.ts';

const usualFile = 'AGENTS.md';

/** Creates or updates the context file that `options.initialize_as` names; fails where there is none afterwards. */
export async function init(wishes: Pick<RunWishes, 'model' | 'quiet' | 'yolo'>): Promise<void> {
  let file = usualFile;
  await runPrompt((project) => {
    file = project?.loaded.config.options?.initialize_as ?? usualFile;
    return promptFor(file);
  }, wishes);
  // The agent may have been refused, or have thought otherwise: a script has to learn of it.
  if (process.exitCode === exitCodes.done && !existsSync(resolve(file)))
    throw new CommandFailure(`${file} was not written.`);
}

function promptFor(file: string): string {
  return [
    `Write ${file} for this project: what an agent has to know who works here for the first time.`,
    'Look first: the layout, the build files, the tests, the tools that format and check the code, a sample of the code.',
    'Then write, briefly and only what you have seen: how to build, test (all of it, and one test alone) and check; how',
    'the code is laid out; its conventions of naming, style and errors; what surprises newcomers.',
    `If ${file} is there already, keep what is right in it, and mend and complete the rest.`,
    'Take over what other files for agents in this project say (such as CLAUDE.md, .cursorrules), without repeating the README.',
    'Leave out what any engineer knows, and secrets.',
  ].join('\n');
}

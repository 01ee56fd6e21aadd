/** `service init`: has the agent look at the project and write down what agents have to know of it. */
import type { Project } from '../project.ts';
import { type RunWishes, runPrompt } from './run.ts';

const usualFile = 'AGENTS.md';

/** Creates or updates the context file that `options.initialize_as` names. */
export async function init(wishes: Pick<RunWishes, 'model' | 'quiet' | 'yolo'>): Promise<void> {
  await runPrompt(
    ({ loaded }: Project) => promptFor(loaded.config.options?.initialize_as ?? usualFile),
    wishes,
  );
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

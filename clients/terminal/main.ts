/** The `service` command: reads the command line and hands each subcommand to its file. */
import type { Command } from 'commander';
import { endDespiteThreads, endWithTheReader } from './interrupts.ts';

try {
  await answer(process.argv.slice(2));
} catch (error) {
  const { exitCodeOf, explainFailure } = await import('./failures.ts');
  const said = explainFailure(error);
  if (said !== null) process.stderr.write(`${said}\n`);
  process.exitCode = exitCodeOf(error);
}
endDespiteThreads();

async function answer(words: readonly string[]): Promise<void> {
  endWithTheReader();
  if (await answerOften(words)) return;
  const { buildProgram } = await import('./command-line/program.ts');
  const program = buildProgram();
  if (isAlone(program, words)) await openInterface(program);
  else await program.parseAsync(words, { from: 'user' });
}

/** What scripts ask many times is not worth reading the definition of the whole command line for. */
async function answerOften(words: readonly string[]): Promise<boolean> {
  const asked = words.join('\n');
  if (asked === 'version' || asked === '--version') await printVersion();
  else if (asked === 'config\nshow') await showConfig({});
  else if (asked === 'config\nshow\n--json') await showConfig({ json: true });
  else return false;
  return true;
}

async function printVersion(): Promise<void> {
  (await import('./commands/version.ts')).printVersion();
}

async function showConfig(options: { readonly json?: boolean }): Promise<void> {
  await (await import('./commands/config-show.ts')).showConfig(options);
}

/** Whether no subcommand is named. Were the program to answer that itself, it would take misspelt ones for arguments. */
function isAlone(program: Command, words: readonly string[]): boolean {
  const { operands, unknown } = program.parseOptions([...words]);
  return operands.length === 0 && unknown.length === 0;
}

async function openInterface(program: Command): Promise<void> {
  const { version, cwd } = program.opts<{ version?: boolean; cwd?: string }>();
  if (version) return printVersion();
  (await import('./places.ts')).enterFolder(cwd);
  return (await import('./commands/interface.ts')).openInterface();
}

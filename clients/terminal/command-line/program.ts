/** The command line: every subcommand with its options, its help and an example. What it does is in `commands/`. */
import { styleText } from 'node:util';
import { Command } from 'commander';
import { calledAs } from '../next-command.ts';
import { addAgents, addInit, addRun, addSessions } from './agent.ts';
import { addCorpora } from './corpora.ts';
import { withExample } from './describe.ts';
import { addJobs } from './jobs.ts';
import { addMemories } from './memories.ts';
import { addPlans } from './plans.ts';
import { addLogin, addServer } from './servers.ts';
import { addConfig, addListings, addTrust } from './settings.ts';
import { addSkills } from './skills.ts';
import { addHelp, addUpkeep } from './upkeep.ts';
import { addWebSearch } from './web-search.ts';

/** Builds the whole command line. Nothing of what the subcommands need is loaded until one is called. */
export function buildProgram(): Command {
  const program = new Command(calledAs());
  program
    .description('An open backend for AI agents, and the agent itself in your terminal.')
    .enablePositionalOptions()
    .exitOverride()
    .helpCommand(false)
    .helpOption('-h, --help', 'print this help')
    .configureHelp({
      styleTitle: (title) => styleText('bold', title, { validateStream: false }),
      subcommandTerm: (command) => command.name(),
    })
    .option('-C, --cwd <folder>', 'work in this folder instead of the current one')
    .option('--version', 'print the version')
    .hook('preAction', async () => (await import('../places.ts')).enterFolder(program.opts().cwd));
  program.commandsGroup('The agent:');
  addRun(program);
  addInit(program);
  addAgents(program);
  addSessions(program);
  addPlans(program);
  addCorpora(program);
  addMemories(program);
  addSkills(program);
  addWebSearch(program);
  addJobs(program);
  program.commandsGroup('Settings:');
  addTrust(program);
  addConfig(program);
  addListings(program);
  program.commandsGroup('Servers:');
  addServer(program);
  addLogin(program);
  program.commandsGroup('Upkeep:');
  // Whoever prints help or completion wants it as it is while nothing was read with it.
  addUpkeep(program, buildProgram);
  addHelp(program, buildProgram);
  withExample(program, 'service run "What does this project do?"');
  sayWhereHelpIs(program);
  return program;
}

/** Each command names its own help where it is used wrongly. */
function sayWhereHelpIs(command: Command, path = command.name()): void {
  command.showHelpAfterError(`See: ${path} --help`);
  for (const one of command.commands) sayWhereHelpIs(one, `${path} ${one.name()}`);
}

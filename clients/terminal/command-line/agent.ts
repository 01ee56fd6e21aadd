/** The agent on the command line: runs, and the sessions that they leave. */
import { type Command, Option } from 'commander';
import { exitCodes } from '../failures.ts';
import { jsonOption, serverOption, withExample } from './describe.ts';

/** `run`. */
export function addRun(program: Command): void {
  withExample(
    program
      .command('run')
      .description(
        'Ask the agent something and print its answer; without a prompt it is read from standard input.',
      )
      .argument('[prompt...]', 'what to ask')
      .option('-m, --model <name>', 'the model, as <provider>:<model_id>')
      .option('-a, --agent <slug>', 'who answers: coder, plan, research, or one of service agents list')
      .option('-s, --session <id>', 'go on in this session')
      .addOption(
        new Option('-c, --continue', 'go on in the latest session of this project').conflicts('session'),
      )
      .option('--corpus <corpus>', 'answer from these documents: a name of service corpora list')
      .option('-q, --quiet', 'print the answer alone')
      .option('--json', 'print every event as one line of JSON')
      .option('-y, --yolo', 'let every tool call pass without asking')
      .option('--require-trust', 'end with exit code 3 instead of leaving out what is not trusted')
      .addOption(serverOption())
      .action(async (prompt: string[], options) => (await import('../commands/run.ts')).run(prompt, options)),
    'git diff | service run "Write a commit message for this change"',
  ).addHelpText('after', describeExitCodes());
}

/** `init`. */
export function addInit(program: Command): void {
  withExample(
    program
      .command('init')
      .description('Let the agent look at this project and write down what agents have to know of it.')
      .option('-m, --model <name>', 'the model, as <provider>:<model_id>')
      .option('-q, --quiet', 'print the answer alone')
      .option('-y, --yolo', 'let every tool call pass without asking')
      .action(async (options) => (await import('../commands/init.ts')).init(options)),
    'service init',
  );
}

/** `agents`. */
export function addAgents(program: Command): void {
  const agents = program.command('agents').helpCommand(false).description('Who answers: the agent profiles.');
  withExample(agents, 'service agents list');
  withExample(
    agents
      .command('list')
      .description('List those that are built in, and those from files and from the server.')
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (options) => (await import('../commands/agents.ts')).listAgents(options)),
    'service agents list',
  );
}

/** `sessions`. */
export function addSessions(program: Command): void {
  const sessions = program
    .command('sessions')
    .helpCommand(false)
    .description('Sessions of this project, or of a server.');
  withExample(sessions, 'service sessions list');
  withExample(
    sessions
      .command('list')
      .description('List the sessions, the latest first.')
      .option('-n, --limit <number>', 'how many', '20')
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (options) => (await import('../commands/sessions.ts')).listSessions(options)),
    'service sessions list',
  );
  withExample(
    sessions
      .command('show')
      .description('Print what was said in a session.')
      .argument('<id>', 'the id, or enough of its end to tell it apart')
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (id: string, options) =>
        (await import('../commands/sessions.ts')).showSession(id, options),
      ),
    'service sessions show ses_01m7yptq6cecw9v07dmzv0nnhz',
  );
  withExample(
    sessions
      .command('inspect')
      .description('Show what a session is doing, what fills its context, and what its agent has at hand.')
      .argument('<id>', 'the id, or enough of its end to tell it apart')
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (id: string, options) =>
        (await import('../commands/session-inspection.ts')).inspectSession(id, options),
      ),
    'service sessions inspect v0nnhz',
  );
  withExample(
    sessions
      .command('rename')
      .description('Give a session another title.')
      .argument('<id>')
      .argument('<title>')
      .addOption(serverOption())
      .action(async (id: string, title: string, options) =>
        (await import('../commands/sessions.ts')).renameSession(id, title, options),
      ),
    'service sessions rename v0nnhz "The flaky test"',
  );
  withExample(
    sessions
      .command('delete')
      .description('Delete a session with all that was said in it.')
      .argument('<id>')
      .option('-y, --yes', 'without asking')
      .addOption(serverOption())
      .action(async (id: string, options) =>
        (await import('../commands/sessions.ts')).deleteSession(id, options),
      ),
    'service sessions delete v0nnhz --yes',
  );
  addTransfers(sessions);
}

/** `sessions export` and `sessions import`. */
function addTransfers(sessions: Command): void {
  withExample(
    sessions
      .command('export')
      .description('Print a session as one document, to keep, to read or to import elsewhere.')
      .argument('<id>', 'the id, or enough of its end to tell it apart')
      .addOption(
        new Option('-f, --format <format>', 'json can be imported again')
          .choices(['json', 'jsonl', 'markdown', 'html'])
          .default('json'),
      )
      .option('--no-files', 'only name pictures and documents: with them it may be too large to be imported')
      .addOption(serverOption())
      .action(async (id: string, options) =>
        (await import('../commands/session-transfers.ts')).exportSession(id, options),
      ),
    'service sessions export v0nnhz --format markdown > session.md',
  );
  withExample(
    sessions
      .command('import')
      .description('Make a session from an exported one.')
      .argument('[file]', 'the document; standard input if absent')
      .option('-a, --agent <slug>', 'who answers, in the place of the document’s')
      .option('-m, --model <name>', 'the model, in the place of the document’s')
      .addOption(serverOption())
      .action(async (file: string | undefined, options) =>
        (await import('../commands/session-transfers.ts')).importSession(file, options),
      ),
    'service sessions import session.json',
  );
}

function describeExitCodes(): string {
  const meanings = {
    done: 'the run completed',
    failed: 'the run failed',
    usage: 'the command line or the settings cannot be used',
    untrusted: 'with --require-trust: a file of the project is not trusted',
    unreachable: 'the server cannot be reached, or refuses the login',
    interrupted: 'interrupted with Ctrl+C',
  } satisfies Record<keyof typeof exitCodes, string>;
  const lines = Object.entries(exitCodes).map(
    ([name, code]) => `  ${code}`.padEnd(6) + meanings[name as keyof typeof exitCodes],
  ); // entries of that very object
  return `\nExit codes:\n${lines.join('\n')}`;
}

/** The command line: every subcommand with its options, its help and an example. What it does is in `commands/`. */
import { isAbsolute } from 'node:path';
import { styleText } from 'node:util';
import { Argument, Command, Option } from 'commander';
import type { Shell } from './commands/completion.ts';
import { CommandFailure, exitCodes } from './failures.ts';

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
    .hook('preAction', async () => (await import('./places.ts')).enterFolder(program.opts().cwd));
  program.commandsGroup('The agent:');
  addRun(program);
  addSessions(program);
  program.commandsGroup('Settings:');
  addTrust(program);
  addConfig(program);
  addListings(program);
  program.commandsGroup('Servers:');
  addServer(program);
  addLogin(program);
  program.commandsGroup('Upkeep:');
  addUpkeep(program);
  addHelp(program);
  withExample(program, 'service run "What does this project do?"');
  sayWhereHelpIs(program);
  return program;
}

function addRun(program: Command): void {
  withExample(
    program
      .command('run')
      .description(
        'Ask the agent something and print its answer; without a prompt it is read from standard input.',
      )
      .argument('[prompt...]', 'what to ask')
      .option('-m, --model <name>', 'the model, as <provider>:<model_id>')
      .option('-s, --session <id>', 'go on in this session')
      .addOption(new Option('-c, --continue', 'go on in the latest session').conflicts('session'))
      .option('-q, --quiet', 'print the answer alone')
      .option('--json', 'print every event as one line of JSON')
      .option('-y, --yolo', 'let every tool call pass without asking')
      .option('--require-trust', 'end with exit code 3 instead of leaving out what is not trusted')
      .addOption(serverOption())
      .action(async (prompt: string[], options) => (await import('./commands/run.ts')).run(prompt, options)),
    'git diff | service run "Write a commit message for this change"',
  ).addHelpText('after', describeExitCodes());
}

function addServer(program: Command): void {
  withExample(
    program
      .command('serve')
      .description('Start the server in the foreground; service serve --help lists its settings.')
      .helpOption(false)
      .allowUnknownOption()
      .argument('[flags...]')
      .action(async (flags: string[]) => (await import('./commands/serve.ts')).serve(flags)),
    'service serve --port 8090',
  );
  withExample(
    program
      .command('invite')
      .description('Print a token that lets one person register on the server of this machine.')
      .helpOption(false)
      .allowUnknownOption()
      .argument('[flags...]')
      .action(async (flags: string[]) => (await import('./commands/serve.ts')).invite(flags)),
    'service invite --data-dir /var/lib/service',
  );
}

function addTrust(program: Command): void {
  withExample(
    program
      .command('trust')
      .description('Show what the settings files of this project would run or reach, and let them.')
      .addOption(
        new Option('-y, --yes', 'trust without asking, and print what was trusted').conflicts([
          'list',
          'show',
          'revoke',
        ]),
      )
      .addOption(new Option('--list', 'list every file that is trusted').conflicts(['show', 'revoke']))
      .addOption(
        new Option('--show', 'show what there is to trust here, and change nothing').conflicts('revoke'),
      )
      .option('--revoke [file]', 'trust a file no longer; without one, every file of this project')
      .addOption(jsonOption())
      .action(async (options) => (await import('./commands/trust.ts')).trust(options)),
    'service trust --show',
  );
}

function addConfig(program: Command): void {
  const config = program.command('config').helpCommand(false).description('See and change settings.');
  withExample(config, 'service config show');
  withExample(
    config
      .command('show')
      .description('Print the settings as they count here.')
      .option('--origin', 'print beside each value the file and line that says so')
      .option('--defaults', 'print also what nobody wrote')
      .addOption(jsonOption())
      .action(async (options) => (await import('./commands/config-show.ts')).showConfig(options)),
    'service config show --origin',
  );
  withExample(
    config
      .command('explain')
      .description('Say what a setting means, what it is here, and which files say so.')
      .argument('<key>', 'as options.tui.diff_mode, or as a JSON pointer')
      .addOption(jsonOption())
      .action(async (key: string, options) =>
        (await import('./commands/config-explain.ts')).explainConfig(key, options),
      ),
    'service config explain tools.grep.timeout',
  );
  withExample(
    config
      .command('set')
      .description(
        'Change a setting of this project, or with --global of all projects. Comments and order stay.',
      )
      .argument('<key>', 'as options.tui.diff_mode')
      .argument('<value>', 'text, a number, true or false, or JSON')
      .option('-g, --global', 'in the global file')
      .action(async (key: string, value: string, options) =>
        (await import('./commands/config-edit.ts')).setConfig(key, value, options),
      ),
    'service config set options.tui.diff_mode split',
  );
  withExample(
    config
      .command('unset')
      .description('Remove a setting from the file of this project, or with --global from the global one.')
      .argument('<key>', 'as options.tui.diff_mode')
      .option('-g, --global', 'from the global file')
      .action(async (key: string, options) =>
        (await import('./commands/config-edit.ts')).unsetConfig(key, options),
      ),
    'service config unset options.tui.diff_mode',
  );
  withExample(
    config
      .command('check')
      .description('Check settings files and say everything that is wrong with them.')
      .argument('[files...]', 'the files; without any, those that count here')
      .addOption(jsonOption())
      .action(async (files: string[], options) =>
        (await import('./commands/config-check.ts')).checkConfig(files, options),
      ),
    'service config check service.json',
  );
  withExample(
    config
      .command('path')
      .description('Print where settings files are looked for here, and which are there.')
      .addOption(jsonOption())
      .action(async (options) => (await import('./commands/config-path.ts')).printConfigPaths(options)),
    'service config path',
  );
}

function addListings(program: Command): void {
  withExample(
    program
      .command('schema')
      .description('Print the JSON Schema of service.json.')
      .action(async () => (await import('./commands/schema.ts')).printSchema()),
    'service schema > service.schema.json',
  );
  withExample(
    program
      .command('models')
      .description('List the models that can be asked here, and which are large and small.')
      .addOption(jsonOption())
      .action(async (options) => (await import('./commands/models.ts')).listModels(options)),
    'service models',
  );
  withExample(
    program
      .command('providers')
      .description('List the model providers, where each comes from, and why one cannot be used.')
      .addOption(jsonOption())
      .action(async (options) => (await import('./commands/providers.ts')).listProviders(options)),
    'service providers',
  );
  const mcp = program.command('mcp').helpCommand(false).description('MCP servers of the settings.');
  withExample(mcp, 'service mcp list');
  withExample(
    mcp
      .command('list')
      .description('List the MCP servers that the settings name.')
      .addOption(jsonOption())
      .action(async (options) => (await import('./commands/mcp.ts')).listMcpServers(options)),
    'service mcp list',
  );
  const lsp = program.command('lsp').helpCommand(false).description('Language servers of the settings.');
  withExample(lsp, 'service lsp list');
  withExample(
    lsp
      .command('list')
      .description('List the language servers that the settings name.')
      .addOption(jsonOption())
      .action(async (options) => (await import('./commands/lsp.ts')).listLanguageServers(options)),
    'service lsp list',
  );
}

function addSessions(program: Command): void {
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
      .action(async (options) => (await import('./commands/sessions.ts')).listSessions(options)),
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
        (await import('./commands/sessions.ts')).showSession(id, options),
      ),
    'service sessions show ses_01m7yptq6cecw9v07dmzv0nnhz',
  );
  withExample(
    sessions
      .command('rename')
      .description('Give a session another title.')
      .argument('<id>')
      .argument('<title>')
      .addOption(serverOption())
      .action(async (id: string, title: string, options) =>
        (await import('./commands/sessions.ts')).renameSession(id, title, options),
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
        (await import('./commands/sessions.ts')).deleteSession(id, options),
      ),
    'service sessions delete v0nnhz --yes',
  );
}

function addLogin(program: Command): void {
  withExample(
    program
      .command('login')
      .description(
        'Log in to a server, for --server. The login is kept in the keyring of the system, or in a file that only you can read.',
      )
      .argument('<server>', 'its address, as https://service.example.com')
      .option('-e, --email <email>', 'your account; the password is asked for, or read from standard input')
      .option('--api-key', 'read an API key from standard input instead')
      .action(async (server: string, options) =>
        (await import('./commands/login.ts')).login(server, options),
      ),
    'service login https://service.example.com --email you@example.com',
  );
  withExample(
    program
      .command('logout')
      .description('End the login to a server, there and here.')
      .argument('[server]', 'its address; may be left out where there is one login')
      .action(async (server: string | undefined) => (await import('./commands/login.ts')).logout(server)),
    'service logout https://service.example.com',
  );
}

function addUpkeep(program: Command): void {
  withExample(
    program
      .command('logs')
      .description('Print the log of this project.')
      .option('-f, --follow', 'go on as it grows')
      .option('-n, --tail <lines>', 'how many of the last lines', '100')
      .option('--json', 'as it is written, one line of JSON an event')
      .action(async (options) => (await import('./commands/logs.ts')).printLogs(options)),
    'service logs --follow',
  );
  withExample(
    program
      .command('dirs')
      .description('Print the folders and files that service uses here.')
      .addOption(jsonOption())
      .action(async (options) => (await import('./commands/dirs.ts')).printDirectories(options)),
    'service dirs',
  );
  withExample(
    program
      .command('doctor')
      .description('Look at everything that could be wrong here, and say how to mend it.')
      .addOption(jsonOption())
      .action(async (options) => (await import('./commands/doctor.ts')).examine(options)),
    'service doctor',
  );
  withExample(
    program
      .command('completion')
      .description('Print the completion script of a shell.')
      .addArgument(new Argument('<shell>', 'the shell').choices(['bash', 'zsh', 'fish']))
      .action(async (shell: Shell) =>
        (await import('./commands/completion.ts')).printCompletion(shell, buildProgram()),
      ),
    'source <(service completion bash)',
  ).addHelpText('after', whereCompletionGoes);
  withExample(
    program
      .command('version')
      .description('Print the version.')
      .action(async () => (await import('./commands/version.ts')).printVersion()),
    'service version',
  );
}

function addHelp(program: Command): void {
  withExample(
    program
      .command('help')
      .description('Print the help of a command.')
      .argument('[command...]', 'as config set')
      .action(async (words: string[]) => {
        const named = words.reduce<Command | undefined>(
          (at, word) => at?.commands.find((one) => one.name() === word),
          program,
        );
        if (!named) throw unknownCommand(words);
        await buildProgram().parseAsync([...words, '--help'], { from: 'user' });
      }),
    'service help config set',
  );
}

function unknownCommand(words: readonly string[]): CommandFailure {
  const message = `There is no command "${words.join(' ')}". service --help lists the commands.`;
  return new CommandFailure(message, exitCodes.usage);
}

const whereCompletionGoes = `
To have it in every shell:
  bash  echo 'source <(service completion bash)' >> ~/.bashrc
  zsh   service completion zsh > "\${fpath[1]}/_service"
  fish  service completion fish > ~/.config/fish/completions/service.fish`;

function jsonOption(): Option {
  return new Option('--json', 'print JSON, for programs');
}

function serverOption(): Option {
  return new Option(
    '--server <url>',
    'a server that you are logged in to, instead of the one inside this process',
  );
}

function withExample(command: Command, example: string): Command {
  return command.addHelpText('after', `\nExample:\n  $ ${example.replace(/\bservice\b/, calledAs())}`);
}

/** The name that this command was linked by, where the launcher says so; Node itself leaves an absolute path there. */
function calledAs(): string {
  const [, name = ''] = process.argv;
  return name === '' || isAbsolute(name) ? 'service' : name;
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

/** Each command names its own help where it is used wrongly. */
function sayWhereHelpIs(command: Command, path = command.name()): void {
  command.showHelpAfterError(`See: ${path} --help`);
  for (const one of command.commands) sayWhereHelpIs(one, `${path} ${one.name()}`);
}

/** Settings on the command line: trust in them, what they say, and what they amount to. */
import { type Command, Option } from 'commander';
import { CommandFailure, exitCodes } from '../failures.ts';
import { jsonOption, serverOption, withExample } from './describe.ts';
import { addMcpKept, scopeOption } from './mcp-kept.ts';

/** `trust`. */
export function addTrust(program: Command): void {
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
      .action(async (options) => (await import('../commands/trust.ts')).trust(options)),
    'service trust --show',
  );
}

/** `config`. */
export function addConfig(program: Command): void {
  const config = program.command('config').helpCommand(false).description('See and change settings.');
  withExample(config, 'service config show');
  withExample(
    config
      .command('show')
      .description('Print the settings as they count here.')
      .option('--origin', 'print beside each value the file and line that says so')
      .option('--defaults', 'print also what nobody wrote')
      .addOption(jsonOption())
      .action(async (options) => (await import('../commands/config-show.ts')).showConfig(options)),
    'service config show --origin',
  );
  withExample(
    config
      .command('explain')
      .description('Say what a setting means, what it is here, and which files say so.')
      .argument('<key>', 'as options.tui.diff_mode, or as a JSON pointer')
      .addOption(jsonOption())
      .action(async (key: string, options) =>
        (await import('../commands/config-explain.ts')).explainConfig(key, options),
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
        (await import('../commands/config-edit.ts')).setConfig(key, value, options),
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
        (await import('../commands/config-edit.ts')).unsetConfig(key, options),
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
        (await import('../commands/config-check.ts')).checkConfig(files, options),
      ),
    'service config check service.json',
  );
  withExample(
    config
      .command('path')
      .description('Print where settings files are looked for here, and which are there.')
      .addOption(jsonOption())
      .action(async (options) => (await import('../commands/config-path.ts')).printConfigPaths(options)),
    'service config path',
  );
}

/** What the settings amount to: `schema`, `models`, `providers`, `mcp`, `lsp`. */
export function addListings(program: Command): void {
  withExample(
    program
      .command('schema')
      .description('Print the JSON Schema of service.json.')
      .action(async () => (await import('../commands/schema.ts')).printSchema()),
    'service schema > service.schema.json',
  );
  withExample(
    program
      .command('models')
      .description(
        'List the models that can be asked here, and which are large and small; with --server those that you can ask there.',
      )
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (options) => (await import('../commands/models.ts')).listModels(options)),
    'service models',
  );
  withExample(
    program
      .command('providers')
      .description('List the model providers, where each comes from, and why one cannot be used.')
      .addOption(jsonOption())
      .action(async (options) => (await import('../commands/providers.ts')).listProviders(options)),
    'service providers',
  );
  const mcp = program
    .command('mcp')
    .helpCommand(false)
    .description('MCP servers of the settings, or with --server those that are kept there.');
  withExample(mcp, 'service mcp list');
  withExample(
    mcp
      .command('list')
      .description('List the MCP servers that the settings name; with --server those that are kept there.')
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (options) =>
        isOnServer(options)
          ? (await import('../commands/mcp-kept.ts')).listKeptMcp(options)
          : (await import('../commands/mcp.ts')).listMcpServers(options),
      ),
    'service mcp list',
  );
  addMcp(mcp);
  addMcpKept(mcp);
  const lsp = program.command('lsp').helpCommand(false).description('Language servers of the settings.');
  withExample(lsp, 'service lsp list');
  withExample(
    lsp
      .command('list')
      .description('List the language servers that the settings name.')
      .addOption(jsonOption())
      .action(async (options) => (await import('../commands/lsp.ts')).listLanguageServers(options)),
    'service lsp list',
  );
}

/** Whether what a server keeps is meant, and not what the settings here say. */
function isOnServer(options: {
  readonly server?: string;
  readonly scope?: string;
}): options is { readonly server: string } {
  if (options.server !== undefined) return true;
  if (options.scope === undefined) return false;
  throw new CommandFailure(
    '--scope is for what a server keeps: name it with --server. Here a name stands once in the settings.',
    exitCodes.usage,
  );
}

const ofServer = 'with --server: whose, where several have the name; the nearest if absent';

function addMcp(mcp: Command): void {
  withExample(
    mcp
      .command('test')
      .description('Connect to an MCP server as an agent does, and say what it offers.')
      .argument('<name>', 'its name in the settings')
      .addOption(jsonOption())
      .addOption(scopeOption(ofServer))
      .addOption(serverOption())
      .action(async (name: string, options) =>
        isOnServer(options)
          ? (await import('../commands/mcp-kept.ts')).testKeptMcp(name, options)
          : (await import('../commands/mcp-servers.ts')).testMcpServer(name, options),
      ),
    'service mcp test issues',
  );
  withExample(
    mcp
      .command('login')
      .description('Log in to a remote MCP server, in a browser.')
      .argument('<name>', 'its name in the settings')
      .addOption(scopeOption(ofServer))
      .addOption(serverOption())
      .action(async (name: string, options) =>
        isOnServer(options)
          ? (await import('../commands/mcp-kept.ts')).logInToKeptMcp(name, options)
          : (await import('../commands/mcp-login.ts')).logInToMcp(name),
      ),
    'service mcp login issues',
  );
  withExample(
    mcp
      .command('logout')
      .description('Forget the login to a remote MCP server.')
      .argument('<name>', 'its name in the settings, or its address where they do not name it any more')
      .addOption(scopeOption(ofServer))
      .addOption(serverOption())
      .action(async (name: string, options) =>
        isOnServer(options)
          ? (await import('../commands/mcp-kept.ts')).logOutOfKeptMcp(name, options)
          : (await import('../commands/mcp-login.ts')).logOutOfMcp(name),
      ),
    'service mcp logout issues',
  );
  withExample(
    mcp
      .command('prompts')
      .description('List the prompts that MCP servers offer.')
      .addOption(jsonOption())
      .action(async (options) => (await import('../commands/mcp-servers.ts')).listMcpPrompts(options)),
    'service mcp prompts',
  );
  withExample(
    mcp
      .command('prompt')
      .description('Print a prompt of an MCP server, filled in, for service run to read.')
      .argument('<server>', 'its name in the settings')
      .argument('<prompt>', 'the name of the prompt')
      .argument('[values...]', 'as name=value')
      .action(async (server: string, prompt: string, values: string[]) =>
        (await import('../commands/mcp-servers.ts')).printMcpPrompt(server, prompt, values),
      ),
    'service mcp prompt issues triage label=bug | service run',
  );
}

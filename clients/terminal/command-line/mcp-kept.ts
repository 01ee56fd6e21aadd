/** What of `mcp` is for the MCP servers that a server keeps. */
import { type Command, Option } from 'commander';
import { serverOption, withExample } from './describe.ts';

/** `mcp add` and `mcp remove`. */
export function addMcpKept(mcp: Command): void {
  withExample(
    mcp
      .command('add')
      .description('Have a server keep an MCP server, and try it.')
      .argument('<name>', 'what it is to be called')
      .argument(
        '<target...>',
        'its address; or after -- a command with its arguments, which only the operator may have started',
      )
      .addOption(scopeOption('for whose runs; user if absent'))
      .addOption(new Option('--type <type>', 'how a remote one is spoken to').choices(['http', 'sse']))
      .option(
        '--header <line...>',
        'sent with every request, as "X-Team: red"; by its name alone it is asked for, or read from standard input',
      )
      .option('--env <pair...>', 'a variable for the command, as LEVEL=info, or by its name alone')
      .addOption(serverOption())
      .action(async (name: string, target: string[], options) =>
        (await import('../commands/mcp-making.ts')).addKeptMcp(name, target, options),
      ),
    'service mcp add issues https://mcp.example.com/mcp --header Authorization --server https://agents.example.com',
  );
  withExample(
    mcp
      .command('remove')
      .description('Remove an MCP server that a server keeps, with its secrets.')
      .argument('<name>', 'what it is called')
      .addOption(scopeOption('whose, where several have the name; the nearest if absent'))
      .option('-y, --yes', 'without asking')
      .addOption(serverOption())
      .action(async (name: string, options) =>
        (await import('../commands/mcp-making.ts')).removeKeptMcp(name, options),
      ),
    'service mcp remove issues --server https://agents.example.com',
  );
}

/** Of several servers of one name the one of that scope. */
export function scopeOption(meaning: string): Option {
  return new Option('--scope <scope>', meaning).choices([
    'user',
    'workspace',
    'organization',
    'installation',
  ]);
}

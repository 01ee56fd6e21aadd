/** `service mcp test`, `prompts` and `prompt`. */
import type { LoadedSettings } from '../../../server/config/config.ts';
import type { McpAccess, McpExamination, McpPrompt } from '../../../server/mcp-access.ts';
import { CommandFailure, exitCodes } from '../failures.ts';
import { closeAtEnd } from '../interrupts.ts';
import { openMcpLogins } from '../logins/mcp-logins.ts';
import { ignoredIn } from '../origin-of.ts';
import {
  brief,
  type Column,
  counted,
  isTerminal,
  notice,
  print,
  printable,
  printJson,
  printTable,
  shown,
} from '../output.ts';
import { currentPlaces, currentSettings } from '../places.ts';
import { noticeIgnored } from '../settings-notices.ts';

/** Connects to a server of the settings as an agent would, and says what it offers. */
export async function testMcpServer(
  name: string,
  { json = false }: { readonly json?: boolean },
): Promise<void> {
  const found = await withServers((servers) => servers.examine(name));
  if (!found) throw await unknownServer(name);
  if (json) printJson({ name, ...found });
  else if (found.ok) printServer(name, found);
  if (found.fault === null) return;
  const said = found.last_words.trim();
  if (said && !json) notice(`It wrote last:\n${printable(said, { lines: true })}`);
  throw new CommandFailure(`The MCP server ${name} cannot be used: ${found.fault}.`, exitCodes.unreachable);
}

/** Lists what servers offer to people. */
export async function listMcpPrompts({ json = false }: { readonly json?: boolean }): Promise<void> {
  const prompts = await withServers((servers) => servers.prompts());
  if (json) return printJson({ prompts });
  if (prompts.length === 0) return notice('No MCP server of the settings offers a prompt.');
  printTable(prompts, promptColumns);
}

/** Prints the text of a prompt, for `service run -` to read. */
export async function printMcpPrompt(
  server: string,
  prompt: string,
  given: readonly string[],
): Promise<void> {
  const values = Object.fromEntries(given.map(valueIn));
  const text = await withServers((servers) => servers.prompt(server, prompt, values)).catch(
    (error: unknown) => {
      throw asFailure(error, server);
    },
  );
  const whole = text.endsWith('\n') ? text : `${text}\n`;
  // Exact into a pipe, where a run reads it; on a terminal what others wrote must not be obeyed.
  process.stdout.write(isTerminal() ? shown(whole) : whole);
}

/** Runs it with the servers of the current settings, and ends those afterwards. */
export async function withServers<Result>(
  action: (servers: McpAccess, settings: LoadedSettings) => Promise<Result>,
): Promise<Result> {
  const { openMcpServers } = await import('../../../server/mcp-access.ts');
  const settings = await currentSettings();
  noticeIgnored(ignoredIn(settings, 'mcp'));
  const { dataHome, workingDirectory } = await currentPlaces();
  const servers = openMcpServers(settings, workingDirectory, process.env, openMcpLogins(dataHome));
  return await closeAtEnd(
    () => action(servers, settings),
    () => servers.close(),
  );
}

/** What a server did wrong, as the failure of the command; anything else as it is. */
export function asFailure(error: unknown, server: string): unknown {
  if (!(error instanceof Error) || error.name !== 'McpFailure') return error;
  return new CommandFailure(`The MCP server ${server}: ${error.message}.`, exitCodes.unreachable);
}

async function unknownServer(name: string): Promise<CommandFailure> {
  const { config } = await currentSettings();
  const entry = config.mcp?.[name];
  const names = Object.keys(config.mcp ?? {}).join(', ') || 'none';
  const message = entry
    ? `The settings have the MCP server ${name} disabled.`
    : `The settings name no MCP server ${name}; there are: ${names}.`;
  return new CommandFailure(message, exitCodes.usage);
}

const textWidth = 80;

function printServer(name: string, found: McpExamination): void {
  const { server, seconds, tools, has_resources, prompts, missing } = found;
  print(`${name}: ${printable(server ?? '')}, connected in ${seconds} s`);
  const off = tools.filter(({ enabled }) => !enabled).length;
  print(`${counted(tools.length, 'tool')}${off > 0 ? `, ${off} of them off` : ''}:`);
  printTable(tools, [
    { title: 'tool', value: ({ name: tool }) => tool, style: 'bold' },
    { title: 'state', value: ({ enabled }) => (enabled ? 'enabled' : 'disabled') },
    { title: 'description', value: ({ description }) => brief(description, textWidth), style: 'dim' },
  ] satisfies readonly Column<McpExamination['tools'][number]>[]);
  if (missing !== null) notice(`Not all of ${name} can be used: ${printable(missing)}.`);
  if (has_resources) print('It has resources: list_mcp_resources and read_mcp_resource read them.');
  if (prompts.length > 0)
    print(`${counted(prompts.length, 'prompt')}: ${prompts.map((one) => printable(one)).join(', ')}`);
}

const promptColumns: readonly Column<McpPrompt>[] = [
  { title: 'server', value: ({ server }) => server },
  { title: 'prompt', value: ({ name }) => name, style: 'bold' },
  {
    title: 'values',
    value: ({ arguments: values }) =>
      values.map(({ name, required }) => (required ? `${name}=` : `[${name}=]`)).join(' '),
  },
  { title: 'description', value: ({ description }) => brief(description, textWidth), style: 'dim' },
];

function valueIn(given: string): readonly [string, string] {
  const [, name, value] = /^([^=]+)=(.*)$/s.exec(given) ?? [];
  if (name === undefined || value === undefined)
    throw new CommandFailure(`${given} is no value of a prompt: write it as name=value.`, exitCodes.usage);
  return [name, value];
}

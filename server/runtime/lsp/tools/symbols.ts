/** The tool that lists the names that a file defines, or finds names in the whole project. */
import { z } from 'zod';
import { type Tool, ToolInputError } from '../../tools/tool.ts';
import { type Location, locationOf } from '../locations.ts';
import { isInside } from '../server-choice.ts';
import { itemsOf, memberOf, textOf } from '../server-requests.ts';
import { shownPath } from '../shown.ts';
import { projectServers } from './project-servers.ts';
import { askingTool, fileOf, fromEach, type LspToolParts, readyServers, requestAt } from './server-use.ts';

const input = z
  .strictObject({
    file_path: z.string().min(1).optional().describe('List what this file defines'),
    query: z.string().min(1).optional().describe('Find names like this in the whole project'),
  })
  .refine(({ file_path, query }) => (file_path === undefined) !== (query === undefined), {
    error: 'Give either file_path or query.',
  });

/** Builds the `symbols` tool. */
export function symbolsTool(parts: LspToolParts): Tool {
  return askingTool(
    {
      name: 'symbols',
      description:
        'Lists the functions, types and other names that a file defines (file_path), or finds names in the whole ' +
        'project (query), as a language server understands the code.',
      input,
    },
    async ({ file_path, query }, { workspacePath, signal }) =>
      file_path === undefined
        ? await ofProject(parts, query ?? '', workspacePath, signal)
        : await ofFile(parts, file_path, workspacePath, signal),
  );
}

const most = 200;
const deepest = 5;

async function ofFile(
  parts: LspToolParts,
  filePath: string,
  workspacePath: string,
  signal: AbortSignal,
): Promise<string> {
  const method = 'textDocument/documentSymbol';
  const path = await fileOf(filePath, workspacePath);
  const ready = await readyServers(parts, path, signal);
  const able = ready.find(({ client }) => client.supports(method));
  if (!able) throw new ToolInputError(`No language server of ${path.shown} lists symbols.`);
  const answer = await requestAt(able.client, method, path.real, {}, parts, signal);
  const lines = Array.isArray(answer) ? answer.flatMap((item) => symbolLines(item, 0)) : [];
  return bounded(lines) || `${path.shown} defines nothing that ${able.server.definition.name} lists.`;
}

async function ofProject(
  parts: LspToolParts,
  query: string,
  workspacePath: string,
  signal: AbortSignal,
): Promise<string> {
  const method = 'workspace/symbol';
  const able = (await projectServers(parts, workspacePath, signal)).filter(({ client }) =>
    client.supports(method),
  );
  if (able.length === 0)
    throw new ToolInputError('No language server of this project finds symbols by name.');
  const told = await fromEach(able, async ({ client }) => {
    await client.refresh();
    const answer = await client.request(method, { query }, { timeoutMs: parts.times.requestMs, signal });
    return Array.isArray(answer) ? answer.map((item) => foundLine(item, workspacePath)) : [];
  });
  if (signal.aborted) throw new ToolInputError('Interrupted.');
  const found = told.flatMap(({ answer }) => answer ?? []);
  const ordered = found.toSorted((one, other) => Number(one.outside) - Number(other.outside));
  const listed = bounded(ordered.map(({ line }) => line)) || `Nothing in the project is called ${query}.`;
  return [listed, ...told.flatMap(({ failure }) => failure ?? [])].join('\n\n');
}

function foundLine(item: unknown, workspacePath: string): { line: string; outside: boolean } {
  const location = memberOf(item, 'location');
  const at = locationOf(textOf(location, 'uri') ?? '', memberOf(location, 'range'));
  const container = textOf(item, 'containerName');
  const line = `${placed(at, workspacePath)}: ${kindOf(item)} ${textOf(item, 'name')}${container ? ` in ${container}` : ''}`;
  return { line, outside: !isInside(workspacePath, at.path) };
}

/** Both forms of the protocol: a tree, and a flat list with locations. */
function symbolLines(item: unknown, depth: number): readonly string[] {
  const range =
    memberOf(item, 'selectionRange') ??
    memberOf(item, 'range') ??
    memberOf(memberOf(item, 'location'), 'range');
  const { line } = locationOf('', range);
  const own = `${'  '.repeat(depth)}${line}: ${kindOf(item)} ${textOf(item, 'name') ?? ''}`;
  if (depth >= deepest) return [own];
  return [own, ...itemsOf(item, 'children').flatMap((child) => symbolLines(child, depth + 1))];
}

function placed({ path, line, column }: Location, workspacePath: string): string {
  return `${shownPath(path, workspacePath)}:${line}:${column}`;
}

function bounded(lines: readonly string[]): string {
  const shown = lines.slice(0, most).map((line) => line.slice(0, 300));
  if (lines.length > most) shown.push(`… and ${lines.length - most} more`);
  return shown.join('\n');
}

/** The protocol's kinds, from 1. */
const kinds = [
  ...[
    'file',
    'module',
    'namespace',
    'package',
    'class',
    'method',
    'property',
    'field',
    'constructor',
    'enum',
  ],
  ...[
    'interface',
    'function',
    'variable',
    'constant',
    'string',
    'number',
    'boolean',
    'array',
    'object',
    'key',
  ],
  ...['null', 'enum member', 'struct', 'event', 'operator', 'type parameter'],
];

function kindOf(item: unknown): string {
  return kinds[Number(memberOf(item, 'kind')) - 1] ?? 'symbol';
}

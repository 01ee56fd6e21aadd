/** What the setting of an MCP server becomes when it is written: checked, its secrets sealed. */
import { isDeepStrictEqual } from 'node:util';
import type { McpServerCreate, McpServerUpdate } from '../contract/api.ts';
import type { McpServer } from '../contract/config.ts';
import { Problem } from '../problem.ts';
import { openedSecrets } from './opened.ts';
import type { McpServersParts } from './parts.ts';
import { type ServerContent, type StoredServer, sealSecrets } from './stored.ts';

type WritingParts = Pick<McpServersParts, 'sealing' | 'refusalOf' | 'log'>;

/** Who writes. */
interface Writer {
  readonly operator: boolean;
}

/** Throws `invalid_request` or `restricted_section`. */
export function writeServer(
  parts: WritingParts,
  id: string,
  { scope: _, workspace_id: _workspace, organization_id: _organization, name, ...entry }: McpServerCreate,
  writer: Writer,
): ServerContent {
  const type = entry.type ?? 'stdio';
  if (type === 'stdio' && entry.url !== undefined && entry.command === undefined)
    throw wrong('/type', 'is needed where there is a url: http, or sse for an older server');
  if (type === 'stdio') requireOperator(writer, ['/command']);
  return contentOf(parts, id, name, { ...entry, type });
}

/** Throws `invalid_request` or `restricted_section`. */
export function changeServer(
  parts: WritingParts,
  stored: StoredServer,
  patch: McpServerUpdate,
  writer: Writer,
): ServerContent & { readonly reconnects: boolean } {
  const { name = stored.name, ...changes } = patch;
  const isProcess = stored.entry.type === 'stdio';
  if (isProcess && changes.type !== undefined)
    throw wrong('/type', 'of a process cannot be changed; make another server');
  const restricted = ['command', 'args', 'env'].filter((member) => member in changes);
  if (isProcess && restricted.length > 0)
    requireOperator(
      writer,
      restricted.map((member) => `/${member}`),
    );
  // What is left out by mistake would be lost with this change.
  const strange = stored.strange.find((member) => !(member in changes));
  if (strange !== undefined)
    throw wrong('', `this version of the server cannot read ${strange || 'what is stored'}; write it again`);
  // Those that cannot be opened any more have to be written again.
  const before = { ...stored.entry, ...openedSecrets(parts, stored) };
  // A merge patch of what the schema allows makes again what the schema allows.
  const after = merged(before, changes) as McpServer;
  const content = contentOf(parts, stored.id, name, after);
  return { ...content, reconnects: name !== stored.name || !isSame(before, after) };
}

function contentOf(parts: WritingParts, id: string, name: string, whole: McpServer): ServerContent {
  check(parts, whole);
  const { env = {}, headers = {}, ...entry } = whole;
  const [envNames, headerNames] = [Object.keys(env), Object.keys(headers)];
  const secrets = { ...(envNames.length > 0 && { env }), ...(headerNames.length > 0 && { headers }) };
  return { name, entry, envNames, headerNames, secrets: sealSecrets(parts.sealing, id, secrets) };
}

const ofProcess = ['command', 'args', 'env'] as const;
const ofRemote = ['url', 'headers'] as const;

function check({ refusalOf }: WritingParts, whole: McpServer): void {
  const isProcess = whole.type === 'stdio';
  const needed = isProcess ? 'command' : 'url';
  if (whole[needed] === undefined) throw wrong(`/${needed}`, `is needed for the type ${whole.type}`);
  const stray = (isProcess ? ofRemote : ofProcess).find((member) => whole[member] !== undefined);
  if (stray) throw wrong(`/${stray}`, `does not go with the type ${whole.type}`);
  if (whole.url === undefined) return;
  const refused = refusalOf(whole.url);
  if (refused) throw wrong('/url', refused.message, refused);
}

function requireOperator({ operator }: Writer, pointers: readonly string[]): void {
  if (operator) return;
  throw new Problem(
    'restricted_section',
    `Only the operator may have processes started on this server: ${pointers.join(', ')}. A remote server has the type http or sse, and a url.`,
  );
}

/** Whether connections of before may go on; which tools are left of it does not matter to them. */
function isSame(before: McpServer, after: McpServer): boolean {
  const bound = ({ enabled_tools, disabled_tools, timeout, ...rest }: McpServer) => rest;
  return isDeepStrictEqual(bound(before), bound(after));
}

function wrong(pointer: string, message: string, cause?: Error): Problem {
  return new Problem('invalid_request', `body${pointer}: ${message}`, {
    errors: [{ in: 'body', pointer, message, code: 'mcp_server' }],
    ...(cause && { cause }),
  });
}

/** RFC 7396. */
function merged(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  const result: Record<string, unknown> = isRecord(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else Object.defineProperty(result, key, { ...own, value: merged(result[key], value) });
  }
  return result;
}

/** A member called `__proto__` is one like any other. */
const own = { configurable: true, enumerable: true, writable: true };

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

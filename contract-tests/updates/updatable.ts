/** What may change by the contract: which operations take If-Match, and where the ETag that they want is read. */
import { type ContractOperation, operations } from '../contract.ts';
import type { Answer, Send } from './client.ts';

export const changing: readonly ContractOperation[] = operations.filter(({ method }) =>
  ['PUT', 'PATCH', 'DELETE'].includes(method),
);
export const guarded: readonly ContractOperation[] = operations.filter(takesIfMatch);

export function takesIfMatch(operation: ContractOperation): boolean {
  return takesHeader(operation, 'If-Match');
}

export function takesHeader({ parameters }: ContractOperation, header: string): boolean {
  return parameters.some(({ in: where, name }) => where === 'header' && name === header);
}

/** Reads what an operation changes: itself, what it belongs to where it is an action, or its entry in a list. */
export function readerOf({ path }: ContractOperation): ContractOperation | undefined {
  const above = path.slice(0, path.lastIndexOf('/'));
  return read(path) ?? (path.endsWith('}') ? read(above) : read(above));
}

function read(path: string): ContractOperation | undefined {
  return operations.find((one) => one.method === 'GET' && one.path === path);
}

/** What is there now, with its ETag. */
export interface Seen {
  readonly etag: string;
  readonly body: Answer['body'];
}

/** Reads what is at a place, as `readerOf` says; null where it is gone. */
export async function see(operation: ContractOperation, place: string, send: Send): Promise<Seen | null> {
  const reader = readerOf(operation);
  if (!reader) throw new Error(`${operation.operationId} changes what nobody can read`);
  const same = reader.path === operation.path;
  const [above, name = ''] = splitLast(place);
  const answer = await send('GET', same ? place : above);
  if (answer.status !== 200) return null;
  if (!Array.isArray(answer.body.data)) return { etag: answer.headers.get('etag') ?? '', body: answer.body };
  const entries = answer.body.data as Record<string, unknown>[]; // a page
  const entry = entries.find((one) => Object.values(one).includes(name));
  return entry ? { etag: String(entry.etag), body: entry } : null;
}

function splitLast(place: string): [string, string] {
  const at = place.lastIndexOf('/');
  return [place.slice(0, at), place.slice(at + 1)];
}

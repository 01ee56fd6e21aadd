/** The request of a cell: what the contract's own example asks for, of things that are there; valid but for who asks. */
import type { ContractOperation } from '../contract.ts';
import { withIds } from './ids.ts';
import type { Sender } from './special-request.ts';
import { specialRequests } from './special-requests.ts';
import type { Ids } from './things.ts';
import type { Answer, Request } from './wire.ts';
import type { World } from './world.ts';

export interface Prepared {
  readonly request: Request;
  /** Takes back what a success would change for other cells. */
  undo(answer: Answer): Promise<void>;
}

export async function prepare(
  world: World,
  operation: ContractOperation,
  ids: Ids,
  sender: Sender,
): Promise<Prepared> {
  const { operationId, method, path, example, responses } = operation;
  const special = (await specialRequests[operationId]?.({ world, sender, ids })) ?? {};
  const body = example && { ...asObject(withIds(renewed(operation), ids)), ...special.body };
  const headers = {
    ...(example && { 'Content-Type': example.type }),
    ...('428' in responses && { 'If-Match': '*' }),
    ...special.headers,
  };
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(ids[name] ?? ''));
  const request = { method, path: filled, query: special.query ?? {}, headers, token: sender.token };
  return {
    request: { ...request, ...(body && { body }), ...(special.token && { token: special.token }) },
    undo: special.undo ?? (async () => undefined),
  };
}

let renewals = 0;

/** The example; where it names something, it does so otherwise each time, since many names may be taken once only. */
function renewed({ example, method, successStatuses }: ContractOperation): unknown {
  if (!successStatuses.includes(201) && method !== 'PATCH') return example?.value;
  renewals += 1;
  const { email, slug, name, ...rest } = asObject(example?.value);
  return {
    ...rest,
    // The account of the examples is there already; to make it again is no example's purpose.
    ...(typeof email === 'string' && { email: email.replace(/^(?!ada@)/, `new-${renewals}-`) }),
    ...(typeof slug === 'string' && { slug: `${slug}-${renewals}` }),
    ...(typeof name === 'string' && { name: `${name} ${renewals}` }),
  };
}

/** Every body of the contract is an object. */
export function asObject(value: unknown): Record<string, unknown> {
  return value as Record<string, unknown>;
}

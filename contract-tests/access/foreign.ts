/** Ids of one organization in requests of another: in each place where an id can stand, they name nothing. */
import type { ContractOperation } from '../contract.ts';
import type { Caller } from './callers.ts';
import { differences, leaks } from './cell.ts';
import { idsIn, neverMade, prefixOf, withIdAt } from './ids.ts';
import type { Organization } from './people.ts';
import { prepare, type Request, send } from './requests.ts';
import { specialRequests } from './special-requests.ts';
import { makeThing, newConversation } from './things.ts';
import type { World } from './world.ts';

/** Whether a request may hold several ids, as far as the contract tells. */
export function namesSeveral({ operationId, path, example }: ContractOperation): boolean {
  const inPath = path.match(/\{/g)?.length ?? 0;
  return inPath + idsIn(example).length + (operationId in specialRequests ? 1 : 0) > 1;
}

/** The owner asks for their own, but for one id, which is that of the same thing in the other organization. */
export async function mixedFaults(world: World, operation: ContractOperation): Promise<string[]> {
  const { ours, theirs } = world.cast;
  const own = await requestBy(world, operation, 'owner', ours);
  const foreign = idsIn(unsigned(await requestBy(world, operation, 'rival', theirs)));
  const ids = idsIn(unsigned(own));
  if (ids.length < 2) return [];
  const faults: string[] = [];
  for (const [at, id] of foreign.entries()) {
    const ask = (other: string) => send(world.server, { ...own, ...withIdAt(unsigned(own), at, other) });
    const [answer, twin] = [await ask(id), await ask(neverMade(id))];
    const told = differences(answer, twin);
    if (answer.status < 400) told.push(`${answer.status}`);
    faults.push(...told.map((fault) => `${id} in the place of ${ids[at]}: ${fault}`));
  }
  return faults;
}

/** The parameters by which a list can be narrowed to something that has an id. */
export function filtersOf({ method, parameters }: ContractOperation) {
  return parameters.flatMap(({ in: where, name, schema }) => {
    const prefix = /^\^([a-z]+)_/.exec(schema.pattern ?? '')?.[1];
    return method === 'GET' && where === 'query' && prefix !== undefined ? [{ name, prefix }] : [];
  });
}

/** Somebody from elsewhere narrows what they may see to something of ours. */
export async function filterFaults(
  world: World,
  operation: ContractOperation,
  caller: Caller,
): Promise<string[]> {
  const { ours, theirs } = world.cast;
  const own = await requestBy(world, operation, caller, theirs);
  const ids = [ours.id, ours.workspaceId, ours.owner.id, ...(await conversationIn(ours))];
  const faults: string[] = [];
  for (const id of ids) ours.secrets.add(id);
  for (const { name, prefix } of filtersOf(operation)) {
    // The organization itself is a colleague's own.
    if (caller === 'colleague' && prefix === 'org') continue;
    const id = ids.find((one) => prefixOf(one) === prefix);
    if (id === undefined) throw new Error(`${operation.operationId}: filterFaults has no id for ${name}`);
    const narrowed = { ...own, query: { ...own.query, [name]: id } };
    const answer = await send(world.server, narrowed);
    const twin = await send(world.server, { ...narrowed, query: { ...own.query, [name]: neverMade(id) } });
    const told = [...differences(answer, twin), ...leaks(world, caller, narrowed, answer)];
    faults.push(...told.map((fault) => `${caller}, ${name}: ${fault}`));
  }
  return faults;
}

const conversations = new WeakMap<Organization, Promise<string[]>>();

/** One that stays as it is; see `newConversation`. */
function conversationIn(organization: Organization): Promise<string[]> {
  const ids = conversations.get(organization) ?? newConversation(organization).then(Object.values<string>);
  conversations.set(organization, ids);
  return ids;
}

async function requestBy(
  world: World,
  operation: ContractOperation,
  caller: Caller,
  organization: Organization,
): Promise<Request> {
  const token = await world.cast.credential(caller, operation);
  const sender = { token, person: world.cast.people[caller] ?? null };
  return (await prepare(world, operation, await makeThing(operation, organization), sender)).request;
}

function unsigned({ token: _, ...asked }: Request): Omit<Request, 'token'> {
  return asked;
}

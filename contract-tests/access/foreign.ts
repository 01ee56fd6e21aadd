/** Ids of one organization in requests of another: in each place where an id can stand, they name nothing. */

import type { AnySchemaObject } from 'ajv';
import type { ContractOperation } from '../contract.ts';
import type { Caller } from './callers.ts';
import { differences, leaks } from './cell.ts';
import { idsIn, neverMade, prefixOf, withIdAt } from './ids.ts';
import type { Organization } from './people.ts';
import { asObject, prepare } from './requests.ts';
import { specialRequests } from './special-requests.ts';
import { makeThing, newConversation } from './things.ts';
import { type Request, send } from './wire.ts';
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

/** Where in a request an id may stand besides its path. */
export function placesOf({ parameters, members }: ContractOperation) {
  const inQuery = parameters.filter((parameter) => parameter.in === 'query');
  return [
    ...inQuery.map(({ name, schema }) => ({ part: 'query' as const, name, prefix: prefixFor(schema) })),
    ...Object.entries(members).map(([name, schema]) => ({
      part: 'body' as const,
      name,
      prefix: prefixFor(schema),
    })),
  ].filter(({ prefix }) => prefix !== '');
}

function prefixFor({ pattern }: AnySchemaObject): string {
  return /^\^([a-z]+)_\[/.exec(pattern ?? '')?.[1] ?? '';
}

/** Somebody asks for their own, and names something of ours with it. */
export async function placeFaults(world: World, operation: ContractOperation): Promise<string[]> {
  const { ours, theirs } = world.cast;
  const ids = [ours.id, ours.workspaceId, ours.owner.id, ...(await conversationIn(ours))];
  for (const id of ids) ours.secrets.add(id);
  const faults: string[] = [];
  for (const { part, name, prefix } of placesOf(operation)) {
    const id = ids.find((one) => prefixOf(one) === prefix);
    if (id === undefined) throw new Error(`${operation.operationId}: placeFaults has no id for ${name}`);
    const own = await requestBy(world, operation, 'rival', theirs);
    const naming = (named: string): Request => ({
      ...own,
      [part]: { ...asObject(own[part]), [name]: named },
    });
    const answer = await send(world.server, naming(id));
    const twin = await send(world.server, naming(neverMade(id)));
    // What a change does not look at cannot tell anything; two of them differ by themselves.
    const changed = operation.method !== 'GET' && answer.status < 300 && twin.status < 300;
    const told = [
      ...(changed ? [] : differences(answer, twin)),
      ...leaks(world, 'rival', naming(id), answer),
    ];
    faults.push(...told.map((fault) => `${part}/${name}: ${fault}`));
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

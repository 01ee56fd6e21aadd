/** Ids of one organization in requests of another: in each place where an id can stand, they name nothing. */

import { type ContractOperation, resolved } from '../contract.ts';
import { idPlacesIn } from '../id-places.ts';
import type { Caller } from './callers.ts';
import { differences } from './cell.ts';
import { idsIn, neverMade, withIdAt } from './ids.ts';
import type { Organization } from './people.ts';
import { prepare } from './requests.ts';
import { specialRequests } from './special-requests.ts';
import { type Ids, makeThing } from './things.ts';
import { type Request, send } from './wire.ts';
import type { World } from './world.ts';

/** Operations that say more than the contract's example does, and yet name one thing alone; and why. */
export const namingOne: Readonly<Record<string, string>> = {
  trustWorkspace: 'It names files of the workspace by their paths and contents.',
  appendUpload: 'It says where in the upload to go on.',
  getFileText: 'It says how long to wait.',
  updateMemory: 'It writes what is remembered.',
  putSkill: 'It writes the text of the skill.',
  applySkillRepository: 'It names a commit of the repository, and belongs to the operator.',
  startMcpOauth: 'It says nothing but that it is to begin.',
  completeProviderOauth: 'It names the attempt by a secret of which nobody else knows.',
  // A corpus of somebody else beside one of one's own is asked for in foreign-places.ts.
  searchCorpora: 'It is about one corpus here.',
};

/** Whether a request may hold several ids, as far as the contract tells. */
export function namesSeveral({ operationId, parameters, example }: ContractOperation): boolean {
  const inPath = parameters.filter(
    ({ in: part, schema }) => part === 'path' && idPlacesIn(schema, resolved).length > 0,
  );
  const beside = idsIn(example).length + (operationId in specialRequests ? 1 : 0);
  return !(operationId in namingOne) && inPath.length + beside > 1;
}

/** The owner asks for their own, but for one id, which is that of the same thing in the other organization. */
export async function mixedFaults(world: World, operation: ContractOperation): Promise<string[]> {
  const { ours, theirs } = world.cast;
  const { request: own } = await requestBy(world, operation, 'owner', ours);
  const foreign = idsIn(unsigned((await requestBy(world, operation, 'rival', theirs)).request));
  const ids = idsIn(unsigned(own));
  if (ids.length < 2)
    return [`holds ${ids.length} ids: name another in special-requests.ts, or say in namingOne why not`];
  const faults: string[] = [];
  for (const [at, id] of foreign.entries()) {
    const ask = (other: string) => send(world.server, { ...own, ...withIdAt(unsigned(own), at, other) });
    const [answer, twin] = [await ask(id), await ask(neverMade(id))];
    const told = differences(answer, twin);
    // Otherwise it may be something else that is refused, and nobody has looked at the id.
    if (answer.status !== 404) told.push(`${answer.status} ${answer.text}`);
    faults.push(...told.map((fault) => `${id} in the place of ${ids[at]}: ${fault}`));
  }
  return faults;
}

/** Of whoever asks, about what the owner of an organization has made for it. */
export async function requestBy(
  world: World,
  operation: ContractOperation,
  caller: Caller,
  organization: Organization,
): Promise<{ readonly request: Request; readonly ids: Ids }> {
  const token = await world.cast.credential(caller, operation);
  const sender = { token, person: world.cast.people[caller] ?? null };
  const ids = await makeThing(operation, organization);
  return { request: (await prepare(world, operation, ids, sender)).request, ids };
}

function unsigned({ token: _, ...asked }: Request): Omit<Request, 'token'> {
  return asked;
}

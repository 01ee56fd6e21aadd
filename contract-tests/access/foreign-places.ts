/** What belongs to others, named in the place of a request where one's own may be named. */
import { type ContractOperation, resolved } from '../contract.ts';
import { type IdPlace, idPlacesIn, withIdIn } from '../id-places.ts';
import { differences, leaks } from './cell.ts';
import { requestBy } from './foreign.ts';
import { neverMade, prefixOf } from './ids.ts';
import type { Organization } from './people.ts';
import { asObject } from './requests.ts';
import { makeThing } from './things.ts';
import { type Answer, type Request, send } from './wire.ts';
import type { World } from './world.ts';

/** A place in a request, besides its path, where an id may stand. */
interface Place extends IdPlace {
  readonly part: 'query' | 'headers' | 'body';
}

const parts = { query: 'query', header: 'headers' } as const;

/** What the operator alone may name belongs to no organization. */
export function placesOf({ parameters, body, access }: ContractOperation): Place[] {
  if (access.allow === 'operator') return [];
  return [
    ...parameters.flatMap(({ in: at, name, schema }) =>
      at === 'query' || at === 'header'
        ? idPlacesIn(schema, resolved).map(({ steps, prefix }) => ({
            ...{ part: parts[at], steps: [name, ...steps], prefix },
          }))
        : [],
    ),
    ...idPlacesIn(body, resolved).map((place) => ({ part: 'body' as const, ...place })),
  ];
}

/** As the lists below name it. */
function nameOf({ operationId }: ContractOperation, { part, steps }: Place): string {
  return `${operationId} ${part}/${steps.join('/')}`;
}

type OwnOf = (prefix: string) => Promise<string>;

/** What has to stand beside an id, or may not, so that the id is looked at; by the name of its place. */
const beside: Readonly<Record<string, (ownOf: OwnOf) => Partial<Request> | Promise<Partial<Request>>>> = {
  'updateUser body/organization_id': () => ({ body: { role: 'viewer' } }),
  'createProviderSetting body/organization_id': ofOrganization,
  'createMcpServer body/organization_id': ofOrganization,
  'getDefaultModels query/organization_id': () => ({ query: { scope: 'organization' } }),
  'putDefaultModels query/organization_id': () => ({ query: { scope: 'organization' } }),
  'createMemory body/session_id': () => ({ body: { scope: 'session', workspace_id: undefined } }),
  'createMemory body/source/message_id': async (ownOf) => ({
    body: { source: { session_id: await ownOf('ses') } },
  }),
  'purgeMemories body/session_id': () => ({
    body: { scope: 'session', workspace_id: undefined, agent_slug: undefined },
  }),
  'createJob body/session_id': () => ({ body: { session_mode: 'reuse' } }),
  'updateJob body/session_id': () => ({ body: { session_mode: 'reuse' } }),
};

function ofOrganization(): Partial<Request> {
  return { body: { scope: 'organization', workspace_id: undefined } };
}

const newIds = 'What is imported gets ids of its own, whatever it had where it comes from.';

/** Places whose ids nobody looks up, and why. */
const unread: Readonly<Record<string, string>> = {
  'importSession body/session/id': newIds,
  'importSession body/messages/[]/id': newIds,
};

const disabledSetting = 'The setting is found, and refused since it is disabled.';

/** Places where one's own is answered with 400, and why. */
const refusedAnyway: Readonly<Record<string, string>> = {
  'createMessage headers/x-service-provider-setting-id': disabledSetting,
  'countMessageTokens headers/x-service-provider-setting-id': disabledSetting,
};

/** Places of which the lists tell and that the contract does not have (any more). */
export function needlessPlaces(operations: readonly ContractOperation[]): string[] {
  const names = operations.flatMap((operation) =>
    placesOf(operation).map((place) => nameOf(operation, place)),
  );
  return [beside, unread, refusedAnyway].flatMap(Object.keys).filter((name) => !names.includes(name));
}

/** Somebody asks for their own, and names something of ours with it. */
export async function placeFaults(world: World, operation: ContractOperation): Promise<string[]> {
  const faults: string[] = [];
  for (const place of placesOf(operation)) {
    const name = nameOf(operation, place);
    const told = await faultsAt(world, operation, place, name);
    faults.push(...told.map((fault) => `${name} (${place.prefix}): ${fault}`));
  }
  return faults;
}

async function faultsAt(
  world: World,
  operation: ContractOperation,
  place: Place,
  name: string,
): Promise<string[]> {
  const { naming, own } = await askingAt(world, operation, place, name);
  const foreign = idWith(place.prefix, await belongingsOf(world.cast.ours));
  const ask = (id: string) => send(world.server, naming(id));
  const [answer, twin, control] = [await ask(foreign), await ask(neverMade(foreign)), await ask(own)];
  const isThrough = ({ status }: Answer) => operation.successStatuses.includes(status);
  const told = leaks(world, 'rival', naming(foreign), answer);
  // Otherwise it may be something else that is refused, and nobody has looked at the id.
  if (name in refusedAnyway ? control.status !== 400 : !isThrough(control))
    told.push(`one's own is answered with ${control.status} ${control.text}`);
  if (name in unread) return isThrough(answer) ? told : [...told, `is looked up: ${answer.text}`];
  if (answer.status < 400 && !findsNothing(answer)) told.push(`is taken: ${answer.status} ${answer.text}`);
  return [...told, ...differences(answer, twin)];
}

/** The request of the rival with whatever id in the place, and the id of their own that may stand there. */
async function askingAt(world: World, operation: ContractOperation, place: Place, name: string) {
  const { theirs } = world.cast;
  const { request, ids } = await requestBy(world, operation, 'rival', theirs);
  // What the request itself is about is no second thing: nobody's belongings go to who is deleted.
  const named = Object.values(ids).filter((id) => !request.path.includes(id));
  const ownOf = async (prefix: string) => idWith(prefix, [...named, ...(await belongingsOf(theirs))]);
  const { body, ...rest } = (await beside[name]?.(ownOf)) ?? {};
  const asked = {
    ...request,
    ...rest,
    body: body ? { ...asObject(request.body), ...asObject(body) } : request.body,
  };
  const part = place.part;
  const naming = (id: string): Request => ({ ...asked, [part]: withIdIn(asked[part], place.steps, id) });
  return { naming, own: await ownOf(place.prefix) };
}

function idWith(prefix: string, ids: readonly string[]): string {
  const id = ids.find((one) => prefixOf(one) === prefix);
  if (id === undefined)
    throw new Error(`say in contract-tests/access/foreign-places.ts how a ${prefix}_ is made`);
  return id;
}

/** A list without members, or a stream or an export without a line that says anything. */
function findsNothing({ type, text }: Answer): boolean {
  if (!/\/json$/.test(type)) return text.replaceAll(/^:.*$/gm, '').trim() === '';
  const { data, files } = JSON.parse(text);
  return [data, files].some((list) => Array.isArray(list) && list.length === 0);
}

const belongings = new WeakMap<Organization, Promise<string[]>>();

/** One of each kind that is named besides a path; they stay as they are. */
function belongingsOf(organization: Organization): Promise<string[]> {
  const made = belongings.get(organization) ?? makeBelongings(organization);
  belongings.set(organization, made);
  return made;
}

const paths = [
  '/api/v1/runs/{run_id}',
  '/api/v1/files/{file_id}',
  '/api/v1/corpora/{corpus_id}',
  '/api/v1/groups/{group_id}',
  '/api/v1/settings/providers/{setting_id}',
];

async function makeBelongings(organization: Organization): Promise<string[]> {
  const ids = [organization.owner.id];
  for (const path of paths)
    ids.push(...Object.values(await makeThing({ operationId: '', path }, organization)));
  return ids;
}

/** One cell of the matrix: the request of one caller to one operation, and what is wrong with its answer. */
import { answerFaults, type ContractOperation } from '../contract.ts';
import { type Caller, outsiders } from './callers.ts';
import { idsIn, neverMade, prefixOf } from './ids.ts';
import { prepare } from './requests.ts';
import type { Ids } from './things.ts';
import { type Answer, type Request, send } from './wire.ts';
import type { World } from './world.ts';

export interface Cell {
  readonly status: number;
  /** Whether the caller was let through. */
  readonly through: boolean;
  /** What no answer may have, whatever its status is. */
  readonly faults: readonly string[];
}

export async function askCell(
  world: World,
  operation: ContractOperation,
  caller: Caller,
  ids: Ids,
): Promise<Cell> {
  const token = await world.cast.credential(caller, operation);
  const sender = { token, person: world.cast.people[caller] ?? null };
  const { request, undo } = await prepare(world, operation, ids, sender);
  const answer = await send(world.server, request);
  const through = operation.successStatuses.includes(answer.status);
  const faults = [
    ...(await answerFaults(operation, answer)),
    ...(through ? [] : refusalFaults(caller, answer)),
    ...(operation.access.allow === 'public' ? [] : leaks(world, caller, request, answer)),
    ...(await twinFaults(world, caller, request, answer)),
  ];
  await undo(answer);
  return { status: answer.status, through, faults: faults.map((fault) => `${caller}: ${fault}`) };
}

/** By which code somebody is refused. */
const codes: Readonly<Partial<Record<Caller, readonly string[]>>> = {
  nobody: ['credential_missing'],
  garbage: ['credential_invalid'],
  expired: ['credential_expired'],
  revoked: ['credential_invalid'],
  unscoped: ['scope_required', 'login_required'],
  scoped: ['login_required'],
};
const codesOfPeople = ['role_required', 'not_found'];

/** A refusal says why; that somebody may not is never told by a failure of another kind. */
function refusalFaults(caller: Caller, { status, headers, text, type }: Answer): string[] {
  const challenge = headers.get('WWW-Authenticate');
  const faults = status === 401 && !challenge?.startsWith('Bearer ') ? ['401 without a challenge'] : [];
  if (status >= 500 || ![401, 403, 404].includes(status)) return [...faults, `${status}: ${text}`];
  // The surface of the Messages API has no codes of ours.
  const code: unknown = /\bjson$/.test(type) ? JSON.parse(text).code : undefined;
  const due = codes[caller] ?? codesOfPeople;
  if (code !== undefined && !due.includes(String(code))) faults.push(`refused by ${code}, not by ${due}`);
  return faults;
}

const withinWorkspaces = ['ses', 'run', 'msg', 'plan', 'prm', 'prq'];

/** Those of other organizations are shown nothing of ours but what they named, nor a colleague of a workspace of others. */
export function leaks({ cast }: World, caller: Caller, request: Request, { text }: Answer): string[] {
  const hidden = (id: string) =>
    outsiders.includes(caller) || (caller === 'colleague' && withinWorkspaces.includes(prefixOf(id)));
  const named = new Set(idsIn(request));
  return idsIn(text)
    .filter((id) => cast.ours.secrets.has(id) && hidden(id) && !named.has(id))
    .map((id) => `is shown ${id}`);
}

/** What is out of reach is answered as what does not exist. */
async function twinFaults(world: World, caller: Caller, request: Request, answer: Answer): Promise<string[]> {
  const { token: _, ...asked } = request;
  const compared = answer.status === 404 || outsiders.includes(caller);
  if (!compared || idsIn(asked).length === 0) return [];
  return differences(answer, await send(world.server, { ...request, ...neverMade(asked) }));
}

/** Empty where nobody could tell one answer from the other. */
export function differences(one: Answer, other: Answer): string[] {
  const [a, b] = [plain(one), plain(other)];
  return a === b ? [] : [`${a}\n    is not answered as what does not exist:\n${b}`];
}

/** Different with every request, whatever it is about. */
const ofTheRequest = ['date', 'x-request-id', 'request-id'];

function plain({ status, headers, text, type }: Answer): string {
  const kept = [...headers].filter(([name]) => !ofTheRequest.includes(name));
  const body = /\bjson$/.test(type) ? { ...JSON.parse(text), request_id: '', instance: '' } : text;
  return JSON.stringify(neverMade([status, Object.fromEntries(kept), body]));
}

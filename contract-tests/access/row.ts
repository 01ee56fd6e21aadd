/** One row of the matrix: an operation, asked by every caller in turn. */
import type { Role } from '@service/client/api';
import type { ContractOperation } from '../contract.ts';
import { type Caller, callerNames } from './callers.ts';
import { askCell } from './cell.ts';
import { type Ids, makeThing } from './things.ts';
import type { World } from './world.ts';

export interface Row {
  /** In the order of the callers. */
  readonly statuses: readonly number[];
  readonly faults: readonly string[];
}

/** The same thing is asked for until somebody is let through: that it is still there shows that no refusal did anything. */
export async function askEverybody(world: World, operation: ContractOperation): Promise<Row> {
  const statuses: number[] = [];
  const faults: string[] = [];
  let ids: Ids | null = null;
  for (const caller of callerNames) {
    const expendable = deletesWhole(operation) && suffices(caller, operation);
    ids = expendable || ids === null ? await makeThing(operation, world.cast.ours, { expendable }) : ids;
    const cell = await askCell(world, operation, caller, ids);
    statuses.push(cell.status);
    faults.push(...cell.faults);
    if (cell.through && operation.method !== 'GET') ids = null;
  }
  return { statuses, faults };
}

/** What the other cells are about would go with it. */
function deletesWhole({ method, path }: ContractOperation): boolean {
  return method === 'DELETE' && /\{(org_id|workspace_id)\}$/.test(path);
}

const rank: Readonly<Record<Role, number>> = { viewer: 0, member: 1, admin: 2, owner: 3 };

function suffices(caller: Caller, { access: { role = 'viewer' } }: ContractOperation): boolean {
  const own = caller === 'scoped' ? 'owner' : caller;
  return own in rank && rank[own as Role] >= rank[role]; // As the line itself has found.
}

/** Model calls that leave nothing behind but what they used: those of /v1/messages without a session. */
import type { Message, Usage } from '../contract/api.ts';
import { callsAtWork } from './calls-at-work.ts';
import { meter, type Spender } from './meter.ts';
import type { StoreParts } from './parts.ts';
import { quotaStateWithin, refuseExceeded } from './quota-check.ts';
import { notFound, type Reach, requireRole } from './reach.ts';
import { type FoundWorkspace, findDefaultWorkspace } from './workspaces.ts';

/** A call that was counted when it began. */
export interface MeteredCall {
  readonly id: string;
  readonly spender: Spender;
  /** Of soft limits that are passed: a sentence each. */
  readonly notices: readonly string[];
}

export interface MeteredCalls {
  /** Counts a request in the workspace, or in the caller's default one. Throws `quota_exceeded`, `not_found` or `role_required`. */
  begin(
    reach: Reach,
    model: string,
    apiKeyId: string | null,
    where?: Pick<FoundWorkspace, 'id' | 'organizationId'>,
  ): Promise<MeteredCall>;
  /** Counts what it used. */
  add(call: MeteredCall, spent: SpentByCall): Promise<void>;
  /** It is at work no more, whatever came of it. */
  end(call: MeteredCall): Promise<void>;
  /** Forgets what processes that have died had at work; answers with how many there were. */
  prune(now: Date): Promise<number>;
}

/** What one model call used. */
export interface SpentByCall {
  readonly model: string;
  readonly usage: Usage;
  readonly cost: Message['cost'];
}

const nothing: Usage = { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0 };

// As what a run stores: the quotas of a person may hold in other organizations, too.
export function meteredCallRepository({ database, clock }: StoreParts): MeteredCalls {
  const now = (): number => clock.now().getTime();
  const atWork = callsAtWork({ database, clock });
  return {
    async begin(reach, model, apiKeyId, where) {
      const call = await database.write('installation', async (sql) => {
        const workspace = where ?? (await findDefaultWorkspace(sql, reach));
        if (!workspace) throw notFound('workspace');
        const { id: workspaceId, organizationId } = workspace;
        requireRole(reach, { organization_id: organizationId, workspace_id: workspaceId });
        const spender = { organizationId, workspaceId, userId: reach.userId, apiKeyId };
        const id = await atWork.insert(sql, spender);
        await meter(sql, spender, { requests: 1, model, usage: nothing, cost: 0 }, now());
        const warnings = refuseExceeded(await quotaStateWithin(sql, spender, now()), now());
        return { id, spender, notices: warnings.map(({ message }) => message) };
      });
      atWork.hold(call.id);
      return call;
    },
    add: ({ spender }, spent) =>
      database.writeOfRun((sql) => meter(sql, spender, { requests: 0, ...spent }, now())),
    end: ({ id }) => atWork.end(id),
    prune: atWork.prune,
  };
}

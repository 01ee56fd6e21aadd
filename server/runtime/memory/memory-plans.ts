/** The plans of a transcript in memory. */
import type { Plan } from '../../contract/api.ts';
import { newId } from '../../ids.ts';
import { Problem } from '../../problem.ts';
import type { Approval } from '../transcript.ts';

export interface MemoryPlans {
  write(
    run: { readonly runId: string; readonly sessionId: string },
    written: { readonly title: string; readonly content: string },
  ): Plan;
  newestOf(sessionId: string): Plan | null;
  /** Throws Problem already_answered. */
  approve(sessionId: string, runId: string, approval: Approval): void;
  reject(planId: string, comment: string | null): void;
  /** What becomes of the plan that the run has carried out. */
  end(runId: string, status: string): void;
}

export function createMemoryPlans(): MemoryPlans {
  const plans = new Map<string, Plan>();
  const save = (plan: Plan, changes: Partial<Plan>): Plan => {
    const saved = { ...plan, ...changes, updated_at: new Date().toISOString() };
    plans.set(plan.id, saved);
    return saved;
  };
  const newestOf = (sessionId: string) =>
    [...plans.values()].findLast((plan) => plan.session_id === sessionId) ?? null;
  return {
    newestOf,
    write({ runId, sessionId }, written) {
      const newest = newestOf(sessionId);
      const changed = { ...written, run_id: runId, status: 'proposed', comment: null } as const;
      if (newest && newest.status !== 'approved' && newest.status !== 'carried_out')
        return save(newest, { ...changed, version: newest.version + 1 });
      const created_at = new Date().toISOString();
      const id = newId('plan');
      const fresh = { id, session_id: sessionId, version: 1, carried_out_by: null, created_at };
      return save({ ...fresh, ...changed, updated_at: created_at }, {});
    },
    approve(sessionId, runId, { planId, version, comment }) {
      const plan = plans.get(planId);
      const open = plan?.status === 'proposed' || plan?.status === 'failed';
      if (!plan || plan.session_id !== sessionId || plan.version !== version || !open)
        throw new Problem('already_answered', 'The plan was decided on, or has another version by now.');
      save(plan, { status: 'approved', carried_out_by: runId, comment });
    },
    reject(planId, comment) {
      const plan = plans.get(planId);
      if (plan) save(plan, { status: 'rejected', comment });
    },
    end(runId, status) {
      const plan = [...plans.values()].find(
        (one) => one.carried_out_by === runId && one.status === 'approved',
      );
      if (plan) save(plan, { status: status === 'completed' ? 'carried_out' : 'failed' });
    },
  };
}

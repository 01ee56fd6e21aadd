/** The plans of a transcript in memory. */
import type { Plan, PlanStepStatus } from '../../contract/api.ts';
import { newId } from '../../ids.ts';
import { stepsOf, withStep } from '../../plan-steps.ts';
import { Problem } from '../../problem.ts';
import type { Approval, RunEnd } from '../transcript.ts';

export interface MemoryPlans {
  write(
    run: { readonly runId: string; readonly sessionId: string },
    written: { readonly title: string; readonly content: string; readonly draft?: boolean | undefined },
  ): Plan;
  newestOf(sessionId: string): Plan | null;
  areCarriedOutBy(runId: string): boolean;
  /** Throws Problem already_answered. */
  approve(sessionId: string, runId: string, approval: Approval): void;
  reject(planId: string, comment: string | null): void;
  /** Null where the plan that the run carries out has no such step. */
  mark(runId: string, step: string, status: PlanStepStatus): Plan | null;
  /** What becomes of the plan that the run has carried out. */
  end(runId: string, end: Pick<RunEnd, 'status' | 'stopReason'>): void;
  forget(sessionIds: ReadonlySet<string>): void;
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
  const carriedOutBy = (runId: string) =>
    [...plans.values()].find((one) => one.carried_out_by === runId && one.status === 'executing');
  return {
    newestOf,
    areCarriedOutBy: (runId) => [...plans.values()].some((one) => one.carried_out_by === runId),
    write({ runId, sessionId }, written) {
      const newest = newestOf(sessionId);
      const { title, content, draft } = written;
      const status = draft ? ('draft' as const) : ('proposed' as const);
      const changed = { title, content, steps: stepsOf(content), run_id: runId, status, comment: null };
      if (newest && !['executing', 'done'].includes(newest.status))
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
      // Nothing waits here: the run begins at once.
      save(plan, { status: 'executing', carried_out_by: runId, comment });
    },
    reject(planId, comment) {
      const plan = plans.get(planId);
      if (plan) save(plan, { status: 'rejected', comment });
    },
    mark(runId, step, status) {
      const plan = carriedOutBy(runId);
      const steps = plan && withStep(plan.steps, step, status);
      return plan && steps ? save(plan, { steps }) : null;
    },
    end(runId, { status, stopReason }) {
      const plan = carriedOutBy(runId);
      const isDone = status === 'completed' && stopReason === 'end_turn';
      if (plan) save(plan, { status: isDone ? 'done' : 'failed' });
    },
    forget(sessionIds) {
      for (const { id, session_id } of plans.values()) if (sessionIds.has(session_id)) plans.delete(id);
    },
  };
}

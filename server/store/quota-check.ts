/** Whether somebody may begin something, or go on with it: asked where they ask, and by their runs before each step. */
import type { Knex } from 'knex';
import type { QuotaResource, QuotaUse } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import type { Spender } from './meter.ts';
import type { QuotaRow } from './quota-rows.ts';
import { quotasOf, usesOf } from './quota-use.ts';

/** What a quota has to say to who uses something. */
export interface QuotaWarning {
  /** Names the limit. */
  readonly about: string;
  /** In a sentence, for a person. */
  readonly message: string;
}

export interface QuotaState {
  /** The hard limit that is reached; null where none is. */
  readonly exceeded: QuotaUse | null;
  /** Of soft limits that are passed. */
  readonly warnings: readonly QuotaWarning[];
}

/** What a run or a call uses. */
const spentByRuns: readonly QuotaResource[] = ['requests', 'tokens', 'cost', 'concurrent_runs'];

/** What a run at work goes on using; that it was asked for, and is there, was counted when it began. */
const spentAtWork: readonly QuotaResource[] = ['tokens', 'cost'];

/** Before anything is stored: what would be one too many is refused. */
export async function quotaStateBefore(sql: Knex, spender: Spender, now: number): Promise<QuotaState> {
  const uses = await usesOfAll(sql, await quotasOf(sql, spender), now, spentByRuns);
  return stateOf(uses, ({ hard, used }) => hard !== null && used >= hard);
}

/**
 * In the transaction that has stored and counted what begins. Whoever has a quota waits for the others who begin
 * something under it: a hundred at once do not all find the last place.
 */
export async function quotaStateWithin(
  sql: Knex.Transaction,
  spender: Spender,
  now: number,
): Promise<QuotaState> {
  const rows = await quotasOf(sql, spender).orderBy(['subject_id', 'scope']).forUpdate();
  const state = stateOf(await usesOfAll(sql, rows, now, spentByRuns), ({ resource, hard, used }) => {
    if (hard === null) return false;
    return spentAtWork.includes(resource) ? used >= hard : used > hard;
  });
  return { ...state, exceeded: state.exceeded && withoutRefused(state.exceeded) };
}

/**
 * In the transaction that has reserved so many bytes. Whoever has a quota waits for the others who upload under it: two
 * uploads do not both find the last free bytes. With `more` to come, of which nobody knows how much, there has to be room.
 */
export async function quotaStateWithBytes(
  sql: Knex.Transaction,
  spender: Spender,
  bytes: number,
  now: number,
  more = false,
): Promise<QuotaState> {
  const rows = await quotasOf(sql, spender).orderBy(['subject_id', 'scope']).forUpdate();
  const uses = await usesOfAll(sql, rows, now, ['storage']);
  const state = stateOf(uses, ({ hard, used }) => hard !== null && (used > hard || (more && used === hard)));
  const { exceeded } = state;
  return { ...state, exceeded: exceeded && { ...exceeded, used: exceeded.used - bytes } };
}

/**
 * In the transaction that has stored one more job, with the same lock. A job that has come to another key is one more for
 * that key alone.
 */
export async function quotaStateWithJob(
  sql: Knex.Transaction,
  spender: Spender,
  now: number,
  isNew: boolean,
): Promise<QuotaState> {
  const bound = quotasOf(sql, spender);
  if (!isNew) bound.where({ subject_type: 'api_key' });
  const rows = await bound.orderBy(['subject_id', 'scope']).forUpdate();
  const uses = await usesOfAll(sql, rows, now, ['jobs']);
  const state = stateOf(uses, ({ hard, used }) => hard !== null && used > hard);
  return { ...state, exceeded: state.exceeded && withoutRefused(state.exceeded) };
}

/** What is refused was counted to find that out, and is counted no more when anybody hears of it. */
function withoutRefused(use: QuotaUse): QuotaUse {
  return spentAtWork.includes(use.resource) ? use : { ...use, used: use.used - 1 };
}

/** Before the next step of a run at work. */
export async function quotaStateAtWork(sql: Knex, spender: Spender, now: number): Promise<QuotaState> {
  const uses = await usesOfAll(sql, await quotasOf(sql, spender), now, spentAtWork);
  return stateOf(uses, ({ hard, used }) => hard !== null && used >= hard);
}

/** Throws `quota_exceeded`, or answers with what there is to say. */
export function refuseExceeded({ exceeded, warnings }: QuotaState, now: number): readonly QuotaWarning[] {
  if (!exceeded) return warnings;
  const { resets_at } = exceeded;
  const wait = resets_at === null ? pauseSeconds : Math.ceil((Date.parse(resets_at) - now) / 1000);
  throw new Problem('quota_exceeded', sentenceOf(exceeded, exceeded.hard ?? 0), {
    quota: exceeded,
    headers: { 'Retry-After': String(Math.max(1, wait)) },
  });
}

/** When something that is at work now may have ended. */
const pauseSeconds = 5;

/** For a person whose limit is reached. */
export function sentenceOf(use: QuotaUse, hard: number): string {
  const { subject_type, subject_id, used, resets_at } = use;
  const amount = `${amountOf(use, hard)}${spanOf(use)}`;
  const reset = resets_at === null ? wayOut(use) : `It resets at ${resets_at}.`;
  return `The quota of ${subjects[subject_type]} ${subject_id} allows ${amount}, and ${numberOf(use, used)} are used. ${reset}`;
}

function spanOf({ window, resource }: QuotaUse): string {
  if (window !== null) return ` in a ${window}`;
  return resource === 'storage' ? ' in all' : ' at a time';
}

function wayOut({ resource }: QuotaUse): string {
  if (resource === 'jobs') return 'Delete jobs that are not needed.';
  return resource === 'storage'
    ? 'Delete files, or sessions that keep some, that are not needed.'
    : 'Wait until some have ended.';
}

async function usesOfAll(
  sql: Knex,
  rows: readonly QuotaRow[],
  now: number,
  only?: readonly QuotaResource[],
): Promise<QuotaUse[]> {
  const uses: QuotaUse[] = [];
  for (const row of rows) uses.push(...(await usesOf(sql, row, now, only)));
  return uses;
}

/** Of several limits that are reached, the one that resets last: before that nothing can be done. */
function stateOf(uses: readonly QuotaUse[], isReached: (use: QuotaUse) => boolean): QuotaState {
  const reached = uses.filter(isReached).sort((a, b) => (a.resets_at ?? '').localeCompare(b.resets_at ?? ''));
  const warnings = uses
    .filter(({ soft, used }) => soft !== null && used > soft)
    .map((use) => ({
      about: [use.subject_id, use.organization_id, use.resource, use.window, use.soft].join(' '),
      message: warningOf(use),
    }));
  return { exceeded: reached.at(-1) ?? null, warnings };
}

function warningOf(use: QuotaUse): string {
  const { subject_type, subject_id, soft, hard, used, resets_at } = use;
  const amount = `${amountOf(use, soft ?? 0)}${spanOf(use)}`;
  const end = hard === null ? '' : ` At ${numberOf(use, hard)} it ends.`;
  const reset = resets_at === null ? '' : ` It resets at ${resets_at}.`;
  return `The soft limit of ${subjects[subject_type]} ${subject_id} of ${amount} is passed: ${numberOf(use, used)} are used.${end}${reset}`;
}

const subjects: Readonly<Record<QuotaUse['subject_type'], string>> = {
  user: 'the account',
  group: 'the group',
  organization: 'the organization',
  workspace: 'the workspace',
  api_key: 'the API key',
};

const units: Readonly<Record<QuotaResource, string>> = {
  requests: ' requests',
  tokens: ' tokens',
  cost: '',
  storage: ' bytes of files',
  concurrent_runs: ' runs',
  jobs: ' scheduled jobs',
};

function amountOf(use: QuotaUse, amount: number): string {
  return `${numberOf(use, amount)}${units[use.resource]}`;
}

function numberOf({ resource }: QuotaUse, amount: number): string {
  return resource === 'cost' ? `$${amount}` : String(amount);
}

/** Rows of quotas: their limits one by one, with the windows in which they count. */
import type { Quota, QuotaLimits, QuotaResource, QuotaUse, QuotaWindow } from '../contract/api.ts';
import { dayOf, startOfDay } from './meter.ts';
import { timestamp } from './timestamps.ts';

export interface QuotaRow {
  subject_id: string;
  /** Its organization, or the empty text. */
  scope: string;
  subject_type: Quota['subject_type'];
  organization_id: string | null;
  user_id: string | null;
  group_id: string | null;
  workspace_id: string | null;
  api_key_id: string | null;
  limits: string;
  revision: number;
  created_at: number;
  updated_at: number;
}

/** One limit of a quota. */
export interface Limit {
  readonly resource: QuotaResource;
  /** Null for what is limited at any one time. */
  readonly window: QuotaWindow | null;
  readonly soft: number | null;
  readonly hard: number | null;
}

/** What is counted in windows; the rest is what there is at a time. */
export type Counted = Extract<QuotaResource, 'requests' | 'tokens' | 'cost'>;

const counted: readonly Counted[] = ['requests', 'tokens', 'cost'];
const held = ['storage', 'concurrent_runs', 'jobs'] as const;
const windows: readonly QuotaWindow[] = ['day', 'month'];

/** In the order of the contract. */
export function limitsOf({ limits: text }: Pick<QuotaRow, 'limits'>): Limit[] {
  const limits: QuotaLimits = JSON.parse(text);
  const bounds = (given: { soft?: number; hard?: number } | undefined) =>
    given && { soft: given.soft ?? null, hard: given.hard ?? null };
  return [
    ...counted.flatMap((resource) =>
      windows.flatMap((window) => {
        const found = bounds(limits[resource]?.[window]);
        return found ? [{ resource, window, ...found }] : [];
      }),
    ),
    ...held.flatMap((resource) => {
      const found = bounds(limits[resource]);
      return found ? [{ resource, window: null, ...found }] : [];
    }),
  ];
}

/** The first day of the window that the moment falls into. */
export function firstDay(window: QuotaWindow, now: number): number {
  if (window === 'day') return dayOf(now);
  const date = new Date(now);
  return dayOf(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1));
}

/** When the next window begins. */
function resetOf(window: QuotaWindow, now: number): number {
  if (window === 'day') return startOfDay(dayOf(now) + 1);
  const date = new Date(now);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1);
}

export function toUse(
  row: QuotaRow,
  { resource, window, soft, hard }: Limit,
  used: number,
  now: number,
): QuotaUse {
  return {
    subject_type: row.subject_type,
    subject_id: row.subject_id,
    organization_id: row.organization_id,
    resource,
    window,
    soft,
    hard,
    used,
    resets_at: window === null ? null : timestamp(resetOf(window, now)),
  };
}

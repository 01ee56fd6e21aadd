/** Money in rows: billionths of a dollar, so that sums are exact, and whether a price was missing. */
import type { Message } from '../contract/api.ts';

/** The columns of a row that gathers what several model calls cost. */
export interface CostColumns {
  cost_nanodollars: number;
  /** Whether a model took part whose price is not known. */
  unpriced: boolean;
}

const nanodollars = 1_000_000_000;

export const noCost: CostColumns = { cost_nanodollars: 0, unpriced: false };

/** Dollars as the contract shows them; null where a price is missing. */
export function toCost({ cost_nanodollars, unpriced }: CostColumns): number | null {
  return unpriced ? null : toDollars(cost_nanodollars);
}

export function toDollars(cost: number): number {
  return cost / nanodollars;
}

/** Exact for what the runtime priced: it counts in the same unit. */
export function toNanodollars(dollars: Message['cost']): number | null {
  return dollars === null ? null : Math.round(dollars * nanodollars);
}

/** What two rows have gathered. */
export function sumCosts(a: CostColumns, b: CostColumns): CostColumns {
  return {
    cost_nanodollars: a.cost_nanodollars + b.cost_nanodollars,
    unpriced: Boolean(a.unpriced) || Boolean(b.unpriced),
  };
}

/** The columns with one more cost, in dollars. */
export function addCost(columns: CostColumns, dollars: number | null): CostColumns {
  return {
    cost_nanodollars: columns.cost_nanodollars + (toNanodollars(dollars) ?? 0),
    unpriced: Boolean(columns.unpriced) || dollars === null,
  };
}

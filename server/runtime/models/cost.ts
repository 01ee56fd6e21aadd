/** Dollars, added without the dust that sums of fractions gather: every cost is a whole number of billionths. */

/** US dollars; null where a price is not known. */
export type Cost = number | null;

const nanodollars = 1_000_000_000;

/** Null as soon as one of them is: a sum without a part would be taken for the whole. */
export function addCosts(...costs: readonly Cost[]): Cost {
  let sum = 0;
  for (const cost of costs) {
    if (cost === null) return null;
    sum += Math.round(cost * nanodollars);
  }
  return sum / nanodollars;
}

/** The nearest whole number of billionths. */
export function wholeCost(dollars: number): number {
  return Math.round(dollars * nanodollars) / nanodollars;
}

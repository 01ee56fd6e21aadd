/** Tokens and dollars as people read them. */
import type { Cost, Usage } from '@service/client/api';

/** `12,345`. */
export function grouped(number: number): string {
  return number.toLocaleString('en-US');
}

/** `1,204 tokens read (1,000 cached), 88 written, $0.0012`. */
export function describeUse({ input_tokens, output_tokens, cached_input_tokens }: Usage, cost: Cost): string {
  const cached = cached_input_tokens > 0 ? ` (${grouped(cached_input_tokens)} cached)` : '';
  return `${grouped(input_tokens)} tokens read${cached}, ${grouped(output_tokens)} written, ${describeCost(cost)}`;
}

/** With as many places as say anything: `$0`, `$0.00056`, `$1.25`. */
function describeCost(cost: Cost): string {
  if (cost === null) return 'price not known';
  if (cost === 0) return '$0';
  return `$${cost >= 0.1 ? cost.toFixed(2) : Number(cost.toPrecision(2)).toFixed(Math.min(9, 1 - Math.floor(Math.log10(cost))))}`;
}

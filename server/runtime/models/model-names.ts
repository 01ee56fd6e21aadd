/** What the settings mean by the names of models that clients of another vendor insist on. */
import type { ClientConfig } from '../../contract/config.ts';

/** The name by which the model is to be asked; the same where the settings do not map it. */
export function meantModel(
  { options, models }: Pick<ClientConfig, 'options' | 'models'>,
  name: string,
): string {
  const names = Object.entries(options?.model_names ?? {});
  const exact = names.find(([pattern]) => pattern === name);
  const fitting = names.filter(([pattern]) => pattern.includes('*') && fits(pattern, name));
  const [longest] = fitting.toSorted(([left], [right]) => right.length - left.length);
  const meant = (exact ?? longest)?.[1];
  if (meant === undefined) return name;
  const chosen = meant === 'large' || meant === 'small' ? models?.[meant] : undefined;
  return chosen ? `${chosen.provider}:${chosen.model}` : meant;
}

/** Piece by piece and from left to right, which takes no longer than the name is long, whatever the pattern. */
function fits(pattern: string, name: string): boolean {
  const [first = '', ...rest] = pattern.split('*');
  const last = rest.pop() ?? '';
  if (!name.startsWith(first) || !name.endsWith(last)) return false;
  const end = name.length - last.length;
  let at = first.length;
  for (const piece of rest) {
    const found = name.indexOf(piece, at);
    if (found < 0) return false;
    at = found + piece.length;
  }
  return at <= end;
}

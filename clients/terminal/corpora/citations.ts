/** Where passages stand, for people; and what an answer cites by number alone. */
import type { PassageHit, QueryResponse } from '@service/client/api';

/** `Handbook › Work › Holidays (page 3)`. */
export function placeOf({ document_title, citation }: PassageHit): string {
  const { headings, page, line } = citation;
  const at = page === null ? `line ${line}` : `page ${page}`;
  return `${[document_title, ...headings].map(onOneLine).join(' › ')} (${at})`;
}

/** A line for each number that stands in the answer, in their order; none for what the answer itself says. */
export function citedIn({ content, rag_results }: QueryResponse): readonly string[] {
  const answer = content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
  const numbers = new Set([...answer.matchAll(/\[(\d{1,2})\]/g)].map(([, number]) => Number(number)));
  return rag_results.flatMap((passage, index) => {
    const place = placeOf(passage);
    return numbers.has(index + 1) && !answer.includes(place) ? [`[${index + 1}] ${place}`] : [];
  });
}

function onOneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim();
}

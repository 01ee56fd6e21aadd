// Puts texts into order by the wire that rerankers share: what has more of the words that were asked for comes first.
import { z } from 'zod';
import { type Call, type Dialect, ignored } from './dialect.ts';
import { checkedBody, openAi, openAiErrorBody } from './openai.ts';

export const rerank: Dialect = {
  ...openAi,
  name: 'openai_media',
  errorFrame: (refusal) => JSON.stringify(openAiErrorBody(refusal)),
  read: (body) => readRequest(body),
};

const request = z.strictObject({
  model: z.string().min(1),
  query: z.string().min(1),
  documents: z.array(z.string().min(1)).min(1).max(1000),
  top_n: z.int().min(1).optional(),
  return_documents: ignored,
  user: ignored,
});

function readRequest(body: unknown): Call {
  const { model, query, documents, top_n = documents.length } = checkedBody(request, body);
  return {
    prompt: {
      ...{ dialect: 'openai_media' as const, task: 'rerank' as const, model, stream: false, tools: [] },
      entries: [
        { from: 'system', text: documents.join('\n') },
        { from: 'user', text: query },
      ],
    },
    whole: ({ text, usage }) =>
      // Whatever the script says instead, where that is JSON: others have answers of their own.
      !/^[[{]/.test(text)
        ? {
            model,
            results: resultsOf(query, documents).slice(0, top_n),
            usage: { total_tokens: usage.input },
          }
        : JSON.parse(text),
    frames: () => [],
  };
}

function resultsOf(query: string, documents: readonly string[]) {
  const wanted = [...wordsIn(query)];
  return documents
    .map((document, index) => {
      const words = wordsIn(document);
      const shared = wanted.filter((word) => words.has(word));
      return { index, relevance_score: shared.length / Math.max(wanted.length, 1) };
    })
    .sort((left, right) => right.relevance_score - left.relevance_score);
}

function wordsIn(text: string): Set<string> {
  return new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu));
}

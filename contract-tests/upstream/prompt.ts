// What a script may see of a request, in one form for all vendors.

export const dialectNames = [
  'chat_completions',
  'responses',
  'anthropic_messages',
  'azure_chat_completions',
  'gemini',
  'vertex_gemini',
  'openai_media',
  'azure_media',
] as const;

export type DialectName = (typeof dialectNames)[number];

/** What is asked for where it is no answer in words. */
export const mediaTasks = ['image', 'speech', 'transcription'] as const;

export type MediaTask = (typeof mediaTasks)[number];

/** Whatever is no answer in words. */
export const tasks = [...mediaTasks, 'embedding', 'rerank'] as const;

/** One item of the conversation, reduced to who said it and its text. */
export interface Entry {
  from: 'system' | 'user' | 'assistant' | 'tool';
  text: string;
}

export interface Prompt {
  dialect: DialectName;
  model: string;
  stream: boolean;
  task?: (typeof tasks)[number];
  /** Names of the tools that the request offers. */
  tools: string[];
  entries: Entry[];
}

/** The conversation after the last words of the user: where an agent loop stands. */
export interface Standing {
  lastUser: string;
  /** Undefined if no tool has answered since the user last spoke. */
  lastToolResult: string | undefined;
  toolResults: number;
  /** Answers of the assistant since the user last spoke; two calls in parallel are one answer. */
  step: number;
}

export function standing(prompt: Prompt): Standing {
  const start = prompt.entries.findLastIndex((entry) => entry.from === 'user');
  const since = prompt.entries.slice(start + 1);
  const results = since.filter((entry) => entry.from === 'tool');
  return {
    lastUser: prompt.entries[start]?.text ?? '',
    lastToolResult: results.at(-1)?.text,
    toolResults: results.length,
    step: since.filter((entry, at) => entry.from === 'assistant' && since[at - 1]?.from !== 'assistant')
      .length,
  };
}

export function systemText(prompt: Prompt): string {
  return prompt.entries
    .filter((entry) => entry.from === 'system')
    .map((entry) => entry.text)
    .join('\n');
}

/** The token rule of the scripted upstream: one token per word. */
export function tokens(...texts: string[]): number {
  return texts.reduce((sum, text) => sum + (text.match(/\S+/g)?.length ?? 0), 0);
}

export function inputTokens(prompt: Prompt): number {
  return tokens(...prompt.entries.map((entry) => entry.text), ...prompt.tools);
}

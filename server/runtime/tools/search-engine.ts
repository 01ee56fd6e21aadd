// What searches the web for the tools; who embeds the runtime hands it in.

/** One result, in plain text. */
export interface SearchHit {
  readonly title: string;
  readonly url: string;
  readonly snippet: string;
}

export interface SearchEngine {
  /** The best first; as many as it gives if no number is asked for. Throws Problem with what the model is told when it fails. */
  search(query: string, maxResults: number | undefined, signal: AbortSignal): Promise<readonly SearchHit[]>;
}

/** The engine to ask now: it may come, change and go while the runtime is at work. Null where there is none. */
export type FindSearchEngine = () => Promise<SearchEngine | null>;

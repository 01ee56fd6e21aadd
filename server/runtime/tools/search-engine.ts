// What a search engine of the web is to the tools; each engine is a file that fits it.

/** One result, in plain text. */
export interface SearchHit {
  readonly title: string;
  readonly url: string;
  readonly snippet: string;
}

export interface SearchEngine {
  /** At most so many, the best first. Throws ToolInputError with what the model is told when it fails. */
  search(query: string, maxResults: number, signal: AbortSignal): Promise<readonly SearchHit[]>;
}

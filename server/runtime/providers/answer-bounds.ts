/** How much of an answer is held at once, whoever sends it: a person's own provider may send what it likes. */

/** One event, one frame, or an answer in one piece. */
export const mostHeldBytes = 32 * 1024 * 1024;

/** What a line of an event takes besides its bytes: each is kept by itself until the event ends. */
export const lineBytes = 64;

/** Far more than any model writes. What is written without an end would fill memory and database. */
export const mostWrittenCharacters = 16 * 1024 * 1024;

/** Far more than any model asks for at once: each is carried out, kept and shown. */
export const mostCalls = 1000;

/** Looks at what may not be there. */

/** What cannot be looked at is as good as absent: null. Whoever reads it says what is wrong with it. */
export async function ifThere<Found>(looking: Promise<Found>): Promise<Found | null> {
  try {
    return await looking;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException; // the file system rejects with nothing else
    if (code !== undefined) return null;
    throw error;
  }
}

// Nothing is called: the target is linked for the data that it defines.

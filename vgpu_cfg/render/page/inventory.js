folds = true;
drawEstate(data);
